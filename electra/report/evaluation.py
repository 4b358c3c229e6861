"""Reports of evaluations: results.jsonl of one or more folders -> blocks and a table. No torch.

A kind of task describes its report by a `Reporting`, a value. Each folder is one row. A report is a function of the
files in the folders: the same files give the same bytes.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from electra.base.files import read_options
from electra.core.errors import UserError
from electra.report.about import folded_commands, lines_about, shown_name
from electra.report.blocks import (
    Blocks,
    BulletList,
    Figure,
    Fold,
    Heading,
    Report,
    Table,
    Text,
    Verdict,
    table_of,
)
from electra.report.drawing import Dot, Dots, draw_dots, render
from electra.report.published import PublishedScores, published_scores
from electra.report.results import (
    EvaluationSummary,
    Metrics,
    Result,
    ScoredTask,
    TaskSummary,
    metric_of,
    read_baselines,
    read_evaluation,
)
from electra.report.runs import names_of
from electra.report.verdict import (
    MOST_CUT,
    Comparison,
    Rival,
    advice,
    advice_on_encoder,
    for_a_verdict,
    gain,
    sampling_error,
    standing,
    too_few,
    too_unknown,
    verdict,
)

GENERAL_DEFINITIONS = (
    "Median and std are over the seeds of one task; ± is std, the standard deviation with n - 1. With one seed there "
    "is none.",
    "Start says what the weights were before fine-tuning: pretrained, scratch (random), or those of the encoder that "
    "was fine-tuned on the task that is named. Params is the number of parameters of the encoder.",
    "A run has collapsed if it gives the same answer to (almost) every example. It counts like any other run.",
    "ECE is the expected calibration error: the mean distance between the probability of an answer and the share of "
    "answers with about this probability that are right, over 15 ranges. One answer to all has the share of its class "
    "as its probability, so its ECE is small although it reads no text.",
    "A score is undefined where its formula has no value, such as the correlation with a constant. It counts as the "
    "worst score in the median; std is then undefined, too. A run that is older than a metric was not measured: "
    "median and std are those of the other seeds.",
    "Above and below, in the first sentence: the scores differ by more than twice the error of their difference, "
    "which is in brackets; level, and not clearly above or below: by at most twice this error. It is sqrt(s^2 + t^2 "
    "+ e^2): s and t are the std of both scores, e is the standard error of the mean difference on the same "
    "examples, the median over the seeds. Where it was not recorded (correlations, SQuAD, evaluations by earlier "
    "versions), e is that of two scores on different examples, each with sqrt(p (1 - p) / N) for a share p of N, (1 "
    "- r^2) / sqrt(N) for a correlation r. With fewer than 50 examples there is no verdict.",
)
"""Definitions at the end of every report."""
ABOUT_RUNS = ("Model", "Start", "Params")
"""Titles of the columns of the overview that stand behind the scores."""
CONSTANT = "majority or mean"
"""Title of the baseline that gives all texts one answer."""
BAG_OF_WORDS = "bag of words"
"""Title of the baseline of tf-idf and a linear model, which reads whole texts."""
BAG_OF_WORDS_DEFINITION = (
    "Bag of words: logistic regression (C = 10; for more than 50 classes naive Bayes, for numbers ridge regression) "
    "on tf-idf of words and pairs of words, or in scripts without spaces of one to three characters, trained on the "
    "same texts"
)
"""What the bag of words is, for the reports of kinds that have this baseline."""
CUT_TEXTS = "dev_texts_cut"
"""Setting of a result: share of the development texts of which the network reads only the beginning."""
UNKNOWN_SHARE = "unknown_share"
"""Setting of a result: share of unknown tokens in the split with most of them; missing if it needs no warning."""
PLAIN_NAMES = {CONSTANT: "one answer to all"}
"""Title of a baseline -> its name in a sentence, where that is not the title."""
MOST_TITLES = 4
"""Tasks that the title of a page names, at most; of more, it has their number."""
NOT_PUBLIC = "Another set than above, without runs of this report: the labels of the test sets are not public."
"""Sentence above published scores of test sets."""


MOST_ECE = 0.2
"""Calibration error above which a sentence warns of the probabilities. 50 answers whose probabilities are exact, and
evenly between .5 and 1, have a smaller one in 19 of 20 draws."""
POORLY_CALIBRATED = (
    "The probabilities of its answers are off by {} points on average (ECE): do not take them for the chance of being "
    "right."
)
"""Warning of a large calibration error, in percent."""
DECIDED_BY_ENCODER = ("learning_rate", "layerwise_lr_decay", "num_train_epochs", "max_length", "head")
"""Options that the encoder decides where they are not given."""
Describe = Callable[[Mapping[Path, str], Sequence[EvaluationSummary]], Blocks]
"""Type of a function of folder -> name, and of the summaries of these folders, that returns further blocks on them."""


@dataclass(frozen=True)
class Reporting:
    """A description of the reports on one kind of task.

    Args:
        kind: name of the package in electra/tasks, and of the published rows.
        verb: words behind `python` that run the command, such as `-m electra squad`.
        tasks: the official tasks by name, in the order of the tables.
        metrics: the metrics by name, in the order of the tables; `by_name` makes them of a list.
        definitions: further sentences about the scores, behind the definitions of the metrics.
        headlines: metrics of tasks that are named after their data; the first one that a result has is the headline.
            If empty, only official tasks are accepted.
        averages: name of an average -> tasks that it is the mean of. Published rows have the first average only.
        datasets: official task -> name and configuration of the Hub's data set with its rows.
        unit: what the rows of a development set are, in the plural, such as `texts`.
        repeats: metric -> metric with the same values; a result that has both shows only the latter in the overview.
        details: maker of the blocks behind the scores, such as classes; None if the kind has none.
    """

    kind: str
    verb: str
    title: str
    tasks: Mapping[str, ScoredTask]
    metrics: Metrics
    definitions: Sequence[str]
    headlines: Sequence[str] = ()
    averages: Mapping[str, Sequence[str]] = field(default_factory=dict)
    datasets: Mapping[str, tuple[str, str | None]] = field(default_factory=dict)
    unit: str = "examples"
    repeats: Mapping[str, str] = field(default_factory=dict)
    details: Describe | None = None

    def report(self, folders: Sequence[Path]) -> Report:
        """Return the report of the evaluations in folders; the table for a terminal has a row for each score.

        Raises:
            UserError: a folder has no results, or those of another kind or of several encoders.
        """
        evaluated = self.read_summaries(folders)
        runs = [*evaluated, *self.read_baselines(folders)]
        overview = self.overview(runs)
        names, *columns = zip(overview.header, *overview.rows, strict=True)
        scores = [column for column in columns if column[0] not in ABOUT_RUNS]
        terminal = Table([unit_of_scores(runs), *names[1:]], scores)
        details = self.details(names_of(folders), evaluated) if self.details else []
        blocks = [*lines_about(folders, self.unit), *self.sentences(folders), *self.blocks(runs, details)]
        titles = [task.title for task in self.tasks_in(runs).values()]
        tasks = ", ".join(titles) if len(titles) <= MOST_TITLES else f"{len(titles)} tasks"
        commands = folded_commands(self.verb, [options_of(folder) for folder in folders])
        return Report(f"{self.title}: {tasks}", [*blocks, *commands], terminal)

    def sentences(self, folders: Sequence[Path]) -> list[Verdict]:
        """Return the verdicts, and what to try after a low score."""
        return [*self.verdicts(folders), *self.advice(folders)]

    def verdicts(self, folders: Sequence[Path]) -> list[Verdict]:
        """Return the verdicts on each run: its scores, and how they compare with the baselines."""
        verdicts = []
        for folder, name in names_of(folders).items():
            results = read_evaluation(folder)
            run = self.summarize(results, name)
            for sentence in self.verdicts_of(run, self.baselines_of(folder, results)):
                text = sentence.text if len(folders) == 1 else f"{name}: {sentence.text}"
                verdicts.append(sentence._replace(text=text))
        return verdicts

    def advice(self, folders: Sequence[Path]) -> list[Verdict]:
        """Return what to try after the first low score of a single folder; [] without one, or for several folders."""
        if len(folders) != 1:
            return []
        results = read_evaluation(folders[0])
        baselines = self.baselines_of(folders[0], results)
        run = self.summarize(results, "")
        for summary in run.tasks.values():
            result = summary.results[0]
            if too_few(examples_of(summary, "dev"), self.unit):
                text = advice_on_encoder(result) or for_a_verdict(self.unit)
            else:
                comparisons = [
                    Comparison(score_for_verdict(summary, metric), rivals_of(summary, baselines, split))
                    for split, metric in headlines_of(summary).items()
                    if not self.why_no_verdict(summary, split)
                ]
                text = advice(comparisons, result, result.settings.get(CUT_TEXTS, 0.0))
            if text:
                return [Verdict(text if len(run.tasks) == 1 else f"{summary.task.title}: {text}", None)]
        return []

    def baselines_of(self, folder: Path, results: Sequence[Result]) -> dict[str, EvaluationSummary]:
        """Return title -> summary of each baseline of an evaluation."""
        return {title: self.summarize(scores, title) for title, scores in read_baselines(folder, results).items()}

    def verdicts_of(self, run: EvaluationSummary, baselines: Mapping[str, EvaluationSummary]) -> list[Verdict]:
        """Return the verdicts on a run.

        A run of one task has a verdict on each split with labels, and perhaps a warning of its probabilities. A run of
        several tasks has a single verdict, which says on how many of them it is above every baseline.
        """
        if len(run.tasks) > 1:
            return [self.verdict_of_many(run, baselines)]
        (summary,) = run.tasks.values()
        sentences = []
        for split, metric in headlines_of(summary).items():
            subject = f"{summary.task.title} {self.title_of(metric)} {score_of(summary, metric)}"
            sample = f"{examples_of(summary, split)} {self.unit}"
            why_none = self.why_no_verdict(summary, split)
            rivals = rivals_of(summary, baselines, split)
            score = score_for_verdict(summary, metric)
            sentences.append(verdict(subject, score, rivals, percent, sample, why_none))
        error = summary.seed_scores("ece").median
        if error is not None and error > MOST_ECE and not self.why_no_verdict(summary):
            sentences.append(Verdict(POORLY_CALIBRATED.format(percent(error)), False))
        return sentences

    def verdict_of_many(self, run: EvaluationSummary, baselines: Mapping[str, EvaluationSummary]) -> Verdict:
        """Return the verdict on a run of several tasks, good if it is above every baseline on most compared tasks."""
        averages = "".join(f"{name} {percent(value)} %. " for name, value in run.averages.items() if value is not None)
        titles: dict[str, list[str]] = {"above": [], "level": [], "below": [], "no verdict": []}
        for summary in run.tasks.values():
            rivals = rivals_of(summary, baselines)
            if self.why_no_verdict(summary):
                titles["no verdict"].append(summary.task.title)
            elif rivals:
                lowest = min(standing(score_for_verdict(summary), rival) for rival in rivals)
                titles["below" if lowest < 0 else "above" if lowest else "level"].append(summary.task.title)
        above = len(titles["above"])
        compared = above + len(titles["level"]) + len(titles["below"])
        text = f"{averages}{len(run.tasks)} tasks"
        if compared:
            text = f"{averages}Above what needs no network on {above} of {compared} tasks"
        others = [f"{word} on {', '.join(titles[word])}" for word in ("level", "below", "no verdict") if titles[word]]
        return Verdict(f"{'; '.join([text, *others])}.", 2 * above > compared if compared else None)

    def why_no_verdict(self, summary: TaskSummary, split: str = "dev") -> str:
        """Return why the runs of a task allow no verdict on a split; "" if they allow one."""
        return too_unknown(unknown_share(summary)) or too_few(examples_of(summary, split), self.unit)

    def read_summaries(self, folders: Sequence[Path]) -> list[EvaluationSummary]:
        """Return the summary of each folder, from its results."""
        return [self.summarize(read_evaluation(folder), name) for folder, name in names_of(folders).items()]

    def read_baselines(self, folders: Sequence[Path]) -> list[EvaluationSummary]:
        """Return a summary of each baseline and folder; folders in which a baseline has equal scores share one."""
        groups: dict[str, dict[str, tuple[list[Result], list[str]]]] = defaultdict(dict)
        for folder, name in names_of(folders).items():
            for title, results in read_baselines(folder, read_evaluation(folder)).items():
                key = str([(result.task, result.metrics) for result in results])
                groups[PLAIN_NAMES.get(title, title)].setdefault(key, (results, []))[1].append(name)
        rows = []
        for title, group in groups.items():
            for results, names in group.values():
                rows.append(self.summarize(results, title if len(group) == 1 else f"{title} of {', '.join(names)}"))
        return rows

    def summarize(self, results: Sequence[Result], name: str) -> EvaluationSummary:
        """Return the summary of the results in the folder `name`.

        Raises:
            UserError: the results are of several encoders, which no command writes into one folder.
        """
        if len(encoders := {result.settings.get("encoder", result.model) for result in results}) > 1:
            raise UserError(f"{name} has results of {len(encoders)} encoders; give each a folder of its own")
        ordered = sorted(results, key=lambda result: result.seed)
        tasks = {}
        for task_name, task in self.tasks_of(results).items():
            runs = tuple(result for result in ordered if result.task == task_name)
            if runs:
                tasks[task_name] = TaskSummary(task, runs, self.metrics)
        means = {}
        for title, names in self.averages.items():
            medians: list[Any] = [tasks[task].headline.median if task in tasks else None for task in names]
            means[title] = None if None in medians else statistics.fmean(medians)
        return EvaluationSummary(name, ordered[0].model, ordered[0].parameters, tasks, means)

    def tasks_of(self, results: Sequence[Result]) -> dict[str, ScoredTask]:
        """Return name -> task: the official tasks, then those of the results that are named after their data.

        Raises:
            UserError: a result is of a task that is neither.
        """
        tasks_by_name = dict(self.tasks)
        for result in results:
            headlines = [metric for metric in self.headlines if metric in result.metrics]
            task = tasks_by_name.get(result.task)
            if task is None and not headlines:
                raise UserError(f"there are results of the unknown task '{result.task}'; report kinds separately")
            if headlines and (task is None or task.headline not in result.metrics):
                title = task.title if task else result.task
                columns = [name for name in self.metrics if self.repeats.get(name) not in result.metrics]
                tasks_by_name[result.task] = ScoredTask(result.task, title, headlines[0], columns=columns)
        return tasks_by_name

    def tasks_in(self, runs: Sequence[EvaluationSummary]) -> dict[str, ScoredTask]:
        """Return name -> task of the runs: official tasks in their order, then others."""
        tasks_by_name = {name: summary.task for run in runs for name, summary in run.tasks.items()}
        return {name: tasks_by_name[name] for name in [*self.tasks, *tasks_by_name] if name in tasks_by_name}

    # ---- blocks

    def blocks(self, runs: Sequence[EvaluationSummary], details: Blocks) -> Blocks:
        """Return the blocks of the report without title and verdicts; `details` are put behind the scores."""
        overview, *remarks = self.section(runs)
        blocks: Blocks = [Heading("Development sets"), Text(f"Scores in {unit_of_scores(runs)}."), overview, *remarks]
        if charts := self.charts(runs):
            caption = f"Scores of each seed: {', '.join(chart.title for chart in charts)}"
            blocks.append(Figure(render(draw_dots(charts), "svg"), caption, is_wide=len(charts) > 2))
        blocks += [Fold("All metrics and seeds", self._by_seed(runs)), *details]
        tasks = self.tasks_in(runs)
        has_average = any(tasks.keys() & names for names in self.averages.values())
        rows = [
            row for row in published_scores(self.kind) if tasks.keys() & row.scores or (has_average and not row.scores)
        ]
        dev = [row for row in rows if row.split == "dev"]
        test = [row for row in rows if row.split == "test"]
        if dev:
            blocks += [Heading("Beside published results"), self._published_table(dev, runs)]
        if test:
            blocks += [Heading("Published results: test sets"), Text(NOT_PUBLIC), self._published_table(test, [])]
        blocks += [Fold("What the scores mean", [BulletList([*self.explanations, *GENERAL_DEFINITIONS])])]
        if rows:
            sources = [f"{row.name}, {row.split}: {row.table}, {row.source}" for row in rows]
            notes = [f"{row.name}, {row.split}: {note}." for row in rows for note in row.notes]
            blocks.append(Fold("Published rows: sources and notes", [BulletList([*sources, *notes])]))
        return blocks

    def title_of(self, metric: str) -> str:
        """Return the title of a metric; the name of one that is in no table, such as the F1 of a type."""
        return metric_of(self.metrics, metric).title

    @property
    def explanations(self) -> list[str]:
        """Return the definitions of the metrics, further sentences, and one that says whether higher is better."""
        metrics = self.metrics.values()
        lower = [metric.title for metric in metrics if metric.lower_is_better and not metric.name.startswith("test_")]
        but = f", except for {', '.join(lower)}" if lower else ""
        about = f"All scores are in percent, on development sets unless they begin with test. Higher is better{but}."
        return [*(metric.definition for metric in metrics if metric.definition), *self.definitions, about]

    def section(self, runs: Sequence[EvaluationSummary]) -> Blocks:
        """Return the overview, and remarks on incomplete data: the part of the report that other pages include."""
        remarks = []
        for run in runs:
            for summary in run.tasks.values() if run.model else ():
                for split, official in summary.task.rows.items():
                    counts = {result.rows.get(split, official) for result in summary.results}
                    for number in sorted(counts - {official}):
                        data = f"{summary.task.title} {split} ({number:,} instead of {official:,} rows)"
                        remarks.append(f"{run.name}: {data}. The score is not comparable with published ones.")
        overview = self.overview(runs)
        return [overview, BulletList(remarks)] if remarks else [overview]

    def overview(self, runs: Sequence[EvaluationSummary]) -> Table:
        """Return a table with a row per run: scores, averages, and `ABOUT_RUNS`.

        If the only task is named after the user's data, the titles of columns are those of metrics alone.
        """
        tasks = self.tasks_in(runs)
        is_of_user = len(tasks) == 1 and not tasks.keys() & self.tasks.keys()
        rows = []
        for run in runs:
            results = [result for summary in run.tasks.values() for result in summary.results]
            starts = dict.fromkeys(result.start.split("-")[0] for result in results)
            seeds = seeds_cell(run)
            row = {"Run": run.name, "Seeds": seeds if run.model or seeds != "1" else ""}
            for name, task in tasks.items():
                for number, metric in enumerate(task.columns or [task.headline]):
                    title = self.metrics[metric].title
                    content = cell(run, name, metric, with_collapsed=number == 0)
                    row[title if is_of_user else f"{task.title} {title}"] = content
            for name, average in run.averages.items():
                row[name] = percent(average, empty="")
            parameters = f"{run.parameters / 1e6:.1f} M" if run.parameters else ""
            row |= dict(zip(ABOUT_RUNS, (shown_name(run.model), ", ".join(starts), parameters), strict=True))
            rows.append(row)
        return table_of(rows)

    def charts(self, runs: Sequence[EvaluationSummary]) -> list[Dots]:
        """Return a chart of each task's headline metric, percent: seeds and medians of runs, medians of baselines."""
        charts = []
        for name, task in self.tasks_in(runs).items():
            rows: dict[str, dict[str, list[Dot]]] = {}
            lines: dict[str, float] = {}
            for run in runs:
                seed_scores = run.tasks[name].headline if name in run.tasks else None
                if seed_scores is None or not seed_scores.defined_values:
                    continue
                if run.model:
                    rows[run.name] = {"seed": [Dot(100 * value) for value in seed_scores.defined_values]}
                    if seed_scores.median is not None and seed_scores.std is not None:
                        rows[run.name]["median ± std"] = [Dot(100 * seed_scores.median, 100 * seed_scores.std)]
                elif seed_scores.median is not None:
                    lines[run.name] = 100 * seed_scores.median
            seeds = sum(len(row["seed"]) for row in rows.values())
            if rows and seeds + len(lines) > 1:  # a single score needs no picture
                charts.append(Dots(f"{task.title} {self.title_of(task.headline)}, percent", rows, lines))
        return charts

    def _by_seed(self, runs: Sequence[EvaluationSummary]) -> Blocks:
        """Return a table per task with all metrics and seeds. A metric without a title is shown by its name."""
        blocks: Blocks = []
        for name, task in self.tasks_in(runs).items():
            rows = []
            for run in runs:
                if name not in run.tasks:
                    continue
                summary = run.tasks[name]
                for metric, seed_scores in summary.metrics.items():
                    row = {
                        "Run": run.name,
                        "Metric": self.title_of(metric),
                        "Median": percent(seed_scores.median, 2),
                        "Std": percent(seed_scores.std, 2, empty=""),
                    }
                    for result in summary.results if run.model or len(summary.results) > 1 else ():
                        text = "not measured"
                        if result.seed in seed_scores.values:
                            text = percent(seed_scores.values[result.seed], 2, "undefined")
                        row[f"seed {result.seed}"] = f"{text} (collapsed)" if result.collapsed else text
                    rows.append(row)
            blocks += [Heading(task.title, 3), table_of(rows)]
        return blocks

    def _published_table(self, published: Sequence[PublishedScores], runs: Sequence[EvaluationSummary]) -> Table:
        """Return a table of runs above published rows, with the tasks that both have; without runs, with all tasks."""
        tasks = self.tasks_in(runs) if runs else self.tasks
        columns = {
            (task, metric): f"{tasks[task].title} {self.title_of(metric)}"
            for task in tasks
            for row in published
            for metric in row.scores.get(task, ())
        }
        averages = list(self.averages)[:1]
        rows = []
        for run in runs:
            row = {"Model": f"{run.name} (this report)"}
            for (task, metric), title in columns.items():
                row[title] = cell(run, task, metric, with_std=False)
            for name in averages:
                row[name] = percent(run.averages[name], empty="")
            seeds = seeds_cell(run)
            row["Protocol"] = "one run" if seeds == "1" else f"median of {seeds} runs"
            rows.append(row)
        for published_row in published:
            row = {"Model": published_row.name}
            for (task, metric), title in columns.items():
                score = published_row.scores.get(task, {}).get(metric)
                row[title] = "" if score is None else f"{score:.1f}"
            for name in averages:
                row[name] = f"{published_row.average:.1f}"
            row["Protocol"] = published_row.protocol
            rows.append(row)
        return table_of(rows)


def score_of(summary: TaskSummary, metric: str) -> str:
    """Return a metric of a task as words of a sentence, such as `81.2 ± 0.4 % over 5 seeds`."""
    seed_scores = summary.seed_scores(metric)
    shown = "undefined" if seed_scores.median is None else percent(seed_scores.median)
    if seed_scores.std is not None:
        shown += f" ± {percent(seed_scores.std)}"
    count = len(seed_scores.values)
    seeds = f"over {count} seeds" if count > 1 else "with 1 seed, so without a spread (--num_seeds 5 gives one)"
    failed = f", of which {summary.collapsed_count} collapsed" if summary.collapsed_count else ""
    return f"{shown}{'' if seed_scores.median is None else ' %'} {seeds}{failed}"


def score_for_verdict(summary: TaskSummary, metric: str = "") -> float:
    """Return the median of a metric, by default of the headline metric, as a number that can be compared.

    For an undefined one it is 0, the correlation of one answer to all, or infinite where less is better.
    """
    seed_scores = summary.seed_scores(metric or summary.task.headline)
    return max(seed_scores.worst, 0.0) if seed_scores.median is None else seed_scores.median


def examples_of(summary: TaskSummary, split: str = "dev") -> int:
    """Return the number of examples of a split, `dev` (all development sets) or `test`, in a task's smallest run."""
    return min(sum(n for name, n in result.rows.items() if name.startswith(split)) for result in summary.results)


def headlines_of(summary: TaskSummary) -> dict[str, str]:
    """Return split -> name of the headline metric there: `dev`, and `test` if the test set has labels."""
    headline = summary.task.headline
    of_test = {"test": f"test_{headline}"} if f"test_{headline}" in summary.metrics else {}
    return {"dev": headline, **of_test}


def options_of(folder: Path) -> dict[str, object]:
    """Return the options of an evaluation, with those that the encoder decided, if all its results have the same."""
    options = read_options(folder) or {}
    decided = {}
    for name in DECIDED_BY_ENCODER:
        values = {result.settings.get(name) for result in read_evaluation(folder)}
        if name not in options and len(values) == 1:
            decided[name] = values.pop()
    # "linear" is the head of a tagger, which --head does not accept.
    return {**options, **{name: value for name, value in decided.items() if value not in (None, "linear")}}


def unknown_share(summary: TaskSummary) -> float:
    """Return the share of tokens that the tokenizer does not know, in [0, 1], the largest of a task's runs."""
    return max(result.settings.get(UNKNOWN_SHARE, 0.0) for result in summary.results)


def rivals_of(summary: TaskSummary, baselines: Mapping[str, EvaluationSummary], split: str = "dev") -> list[Rival]:
    """Return the baselines with which a task's headline metric on a split is compared, the best one first.

    The error of a difference is made of the std of both scores and of the paired error of the rows that both have
    answered, its median over the seeds. If a seed has no paired error, both scores count as those of different rows.

    Args:
        split: `dev` or `test`.
    """
    metric = summary.metric(summary.task.headline if split == "dev" else f"{split}_{summary.task.headline}")
    examples = examples_of(summary, split)

    def error_of_rows(title: str, compared: TaskSummary) -> float:
        recorded = [result.paired_errors.get(title, {}).get(split) for result in summary.results]
        errors = [error for error in recorded if error is not None]
        if len(errors) == len(summary.results):
            return statistics.median(errors)
        scores = (score_for_verdict(scored, metric.name) for scored in (summary, compared))
        return math.hypot(*(sampling_error(metric, score, examples) for score in scores)) if examples else 0.0

    settings = summary.results[0].settings
    cut = settings.get(CUT_TEXTS, 0.0)
    reads_more = (
        f", which reads whole texts, the network the first {settings.get('max_length')} tokens of a text "
        f"({percent(cut, 0)} % are longer)"
    )
    rivals = []
    for title, baseline in baselines.items():
        if summary.task.name not in baseline.tasks:
            continue
        compared = baseline.tasks[summary.task.name]
        score = score_for_verdict(compared, metric.name)
        deviations = (scored.seed_scores(metric.name).std or 0.0 for scored in (summary, compared))
        error = math.hypot(*deviations, error_of_rows(title, compared))
        is_of_words = title == BAG_OF_WORDS
        note = reads_more if is_of_words and cut > MOST_CUT else ""
        name = PLAIN_NAMES.get(title, f"the {title}")
        rivals.append(Rival(name, score, error, note, is_of_words, metric.lower_is_better))
    return sorted(rivals, key=lambda rival: gain(0.0, rival))


def percent(fraction: float | None, digits: int = 1, empty: str = "–") -> str:
    """Return a fraction as text in percent; `empty` for None."""
    return empty if fraction is None else f"{round(100 * fraction, digits) + 0.0:.{digits}f}"  # + 0.0: never -0.0


def cell(
    run: EvaluationSummary,
    task: str,
    metric: str,
    *,
    with_std: bool = True,
    with_collapsed: bool = True,
) -> str:
    """Return the median of a metric in percent as text, such as `53.5 ± 1.2 (1 of 3 collapsed)`.

    If the run does not have the task, or its task the metric, return "".
    """
    summary = run.tasks.get(task)
    if summary is None or metric not in (summary.task.headline, *summary.metrics):
        return ""
    seed_scores = summary.seed_scores(metric)
    text = percent(seed_scores.median)
    if with_std and seed_scores.std is not None:
        text += f" ± {percent(seed_scores.std)}"
    remarks = {
        "collapsed": summary.collapsed_count * with_collapsed,
        "undefined": seed_scores.undefined_count,
        "not measured": len(summary.results) - len(seed_scores.values),
    }
    return text + "".join(f" ({count} of {len(summary.results)} {what})" for what, count in remarks.items() if count)


def unit_of_scores(runs: Sequence[EvaluationSummary]) -> str:
    """Return the unit of the scores in words: `percent`, or `percent, median ± std` if any task has several seeds."""
    has_spread = any(len(summary.results) > 1 for run in runs for summary in run.tasks.values())
    return "percent, median ± std" if has_spread else "percent"


def seeds_cell(run: EvaluationSummary) -> str:
    """Return the number of seeds as text, such as `5`, or `1 to 5` if it differs between tasks."""
    counts = {len(summary.results) for summary in run.tasks.values()}
    return " to ".join(map(str, sorted({min(counts), max(counts)})))
