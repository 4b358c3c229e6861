"""The report of minimal pairs: verdicts, tables, a chart. No torch."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from electra.base.files import read_json, read_options
from electra.core.errors import UserError
from electra.report.about import date_of, folded_commands, shown_name
from electra.report.blocks import Blocks, BulletList, Figure, Fold, Heading, Report, Table, Text, Verdict, table_of
from electra.report.drawing import Dot, Dots, draw_dots, render
from electra.report.evaluation import percent
from electra.report.runs import names_of
from electra.report.verdict import FEWEST_EXAMPLES, Rival, too_few, verdict

PAIR_RESULTS_NAME = "minimal_pairs.json"
"""File in the folder of an evaluation with its accuracies."""
TITLE = "Minimal pairs"
"""Title of a report."""
PAIRS_TITLES = {"phenomena": "phenomenon", "paradigms": "paradigm"}
"""Level of a table -> title of its first column."""
PAIRS_DEFINITIONS = (
    "Accuracy: share of the pairs whose acceptable sentence has the higher score, in percent. A tie counts half; "
    "guessing gives 50.",
    "fewer tokens: the sentence with fewer tokens is preferred. A network that knows nothing does the same, because "
    "a score is a sum over tokens. So where the sentences of a pair differ in length, compare with this column, not "
    "with 50.",
    "token frequencies: the score is the sum of the logarithms of the tokens' frequencies in all sentences of the "
    "data, acceptable or not. They know the words and no order.",
    "per token: the score divided by the sentence's number of tokens. A network that knows nothing is near 50, but a "
    "longer sentence that repeats easy words gains.",
    "A phenomenon is the mean of its paradigms, overall is the mean of all paradigms. ± is the standard error, "
    "sqrt(sum of s^2) / k for k paradigms, each with s = sqrt(a (1 - a) / pairs) if there are no ties. "
    "In the sentences at the top, ± takes the paradigms as a sample, because their pairs resemble each other.",
    "Scores are sums over the tokens of a sentence without [CLS] and [SEP]. "
    "discriminator: log(1 - D), D being the probability that a token was replaced. corrected: log p, which follows "
    "from D and the generator's probability of the token where it is masked. "
    "pll: the language model's log probability of a token where it and the later pieces of its word are masked. "
    "causal: that of a token given those before it.",
)
"""Definitions of the numbers, for the end of a report."""


class Accuracy(TypedDict):
    """An accuracy with its standard error.

    Attributes:
        accuracy: fraction of the pairs in [0, 1]; for several paradigms, the mean of their accuracies.
        standard_error: its standard error, as a fraction; None if undefined.
        pairs: number of the pairs.
        paradigms: number of the paradigms, if it is a mean over paradigms.
    """

    accuracy: float
    standard_error: float | None
    pairs: NotRequired[int]
    paradigms: NotRequired[int]


class Accuracies(TypedDict):
    """The accuracies of one score, see `summarize`."""

    overall: Accuracy
    phenomena: dict[str, Accuracy]
    paradigms: dict[str, Accuracy]


class Margin(TypedDict):
    """The margin of a score over the best baseline, as fractions.

    The standard error is that of the differences on the same pairs, with the paradigms as a sample; see `margin`.
    """

    baseline: str
    difference: float
    standard_error: float | None


class PairResults(TypedDict):
    """The content of minimal_pairs.json, but for the settings.

    Attributes:
        scores: accuracies of scores that are sums over tokens, by name of the score.
        per_token: accuracies of the same scores divided by the number of tokens.
        baselines: accuracies of `BASELINES`, which need no network.
        margins: margins of `scores` over the best baseline.
        unequal_share: share of the pairs whose sentences have different numbers of tokens.
    """

    scores: dict[str, Accuracies]
    per_token: dict[str, Accuracies]
    baselines: dict[str, Accuracies]
    margins: dict[str, Margin]
    unequal_share: float


BASELINES = ("fewer tokens", "token frequencies")
"""Names of the scores that need no network, in the order of `baseline_scores`."""
GUESSING = "guessing"
"""Name of the baseline that is right in half of the pairs."""


def pairs_verdict(name: str, results: PairResults) -> Verdict:
    """Return the sentence that compares a score with the best of the baselines, which know no grammar."""
    overall = results["scores"][name]["overall"]
    margin = results["margins"][name]
    baseline = margin["baseline"]
    baseline_accuracy = 0.5 if baseline == GUESSING else results["baselines"][baseline]["overall"]["accuracy"]
    error = margin["standard_error"]
    pairs = overall.get("pairs", FEWEST_EXAMPLES)
    why_none = too_few(pairs, "pairs") or ("the pairs are too few for an error" if error is None else "")
    rival = Rival(baseline, baseline_accuracy, error or 0.0)
    accuracy = overall["accuracy"]
    return verdict(f"{name} {percent(accuracy)} %", accuracy, [rival], percent, f"{pairs:,} pairs", why_none)


def overall_table(results: PairResults) -> Table:
    """Return a table with a row for each score and baseline: accuracy of sums over tokens, and of means per token."""
    rows = []
    for name, accuracies in results["scores"].items():
        per_token = results["per_token"][name]["overall"]
        rows.append({"score": name, "accuracy": _cell(accuracies["overall"]), "per token": _cell(per_token)})
    for name, accuracies in results["baselines"].items():
        rows.append({"score": name, "accuracy": _cell(accuracies["overall"])})
    return table_of(rows)


def accuracy_table(columns: Mapping[str, Accuracies], level: Literal["phenomena", "paradigms"]) -> Table:
    """Return a table with a row for each phenomenon or paradigm, one for the mean, and a column for each score.

    Args:
        columns: title of a column -> accuracies of a score or baseline.
    """
    rows = []
    for name in dict.fromkeys(name for results in columns.values() for name in results[level]):
        row = {PAIRS_TITLES[level]: name}
        for title, results in columns.items():
            if name in results[level]:
                row[title] = _cell(results[level][name])
        rows.append(row)
    means = {title: _cell(results["overall"]) for title, results in columns.items()}
    return table_of([*rows, {PAIRS_TITLES[level]: "overall", **means}])


def _cell(accuracy: Accuracy) -> str:
    """Return an accuracy in percent with its error, if it has one."""
    error = accuracy["standard_error"]
    return percent(accuracy["accuracy"]) if error is None else f"{percent(accuracy['accuracy'])} ± {percent(error)}"


def phenomenon_dots(columns: Mapping[str, Accuracies]) -> Dots:
    """Return the panel of the accuracies of each score by phenomenon, the overall accuracy last.

    Args:
        columns: see `accuracy_table`.
    """
    rows: dict[str, dict[str, list[Dot]]] = {}
    for title, accuracies in columns.items():
        for name, accuracy in (*accuracies["phenomena"].items(), ("overall", accuracies["overall"])):
            error = accuracy["standard_error"]
            dot = Dot(100 * accuracy["accuracy"], None if error is None else 100 * error)
            rows.setdefault(name, {})[title] = [dot]
    rows["overall"] = rows.pop("overall")
    return Dots("accuracy in percent ± standard error", rows)


def count_of(results: PairResults) -> int:
    """Return the number of pairs of an evaluation."""
    (first, *_) = results["scores"].values()
    return sum(paradigm.get("pairs", 0) for paradigm in first["paradigms"].values())


def read_pair_results(path: Path) -> PairResults:
    """Return the content of minimal_pairs.json.

    Raises:
        UserError: the file is of another form, or a score lacks its accuracy per token or its margin over a baseline.
    """
    results = read_json(path, PairResults)
    baselines = {GUESSING, *results["baselines"]}
    compared = {name for name, margin in results["margins"].items() if margin["baseline"] in baselines}
    incomplete = results["scores"].keys() - (compared & results["per_token"].keys())
    if incomplete or not results["scores"]:
        raise UserError(f"{path} lacks parts of its scores {', '.join(sorted(incomplete))}; make it anew")
    return results


def report_pairs(folders: Sequence[Path]) -> Report:
    """Return the report of evaluations in one or more folders, side by side."""
    columns: dict[str, Accuracies] = {}
    baselines: dict[str, Accuracies] = {}
    verdicts: list[Verdict] = []
    lines: Blocks = []
    blocks: Blocks = []
    commands: list[Mapping[str, Any]] = []
    names = names_of(folders)
    for folder, title in names.items():
        results = read_pair_results(folder / PAIR_RESULTS_NAME)
        prefix = f"{title}: " if len(folders) > 1 else ""
        options = read_options(folder) or {}
        named = [shown_name(options[name]) for name in ("data", "pretrain_path") if options.get(name)]
        lines.append(Text(f"{title}: {', '.join([*named, f'{count_of(results):,} pairs', *date_of(folder)])}"))
        commands.append(options)
        for name, accuracies in results["scores"].items():
            columns[prefix + name] = accuracies
            sentence = pairs_verdict(name, results)
            verdicts.append(sentence._replace(text=prefix + sentence.text))
        baselines |= {prefix + name: accuracies for name, accuracies in results["baselines"].items()}
        if prefix:
            blocks.append(Heading(title))
        unequal = percent(results["unequal_share"])
        blocks += [
            Text(f"The sentences of {unequal} % of the pairs have different numbers of tokens."),
            overall_table(results),
        ]
    columns |= baselines
    table = accuracy_table(columns, "phenomena")
    chart = Figure(render(draw_dots([phenomenon_dots(columns)]), "svg"), "Accuracies by phenomenon", is_wide=False)
    blocks += [Heading("By phenomenon"), Text("Accuracy in percent ± standard error."), chart, table]
    paradigms = accuracy_table(columns, "paradigms")
    if paradigms.rows != table.rows:  # data without phenomena have their paradigms for them
        blocks.append(Fold(f"By paradigm: {len(paradigms.rows) - 1}", [paradigms]))
    blocks.append(Fold("What the numbers mean", [BulletList(PAIRS_DEFINITIONS)]))
    blocks += folded_commands("-m electra pairs", commands)
    return Report(f"{TITLE}: {', '.join(names.values())}", [*lines, *verdicts, *blocks], table)
