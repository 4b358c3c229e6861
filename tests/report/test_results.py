"""results.jsonl, its summaries over seeds (numbers by hand), and reports of all kinds of evaluations."""

import json
import math
import os
import re
from dataclasses import replace

import yaml
from pytest import approx, raises

from electra.base.console import columns_of
from electra.core.errors import UserError
from electra.finetuning.registry import TASKS, reporting_of
from electra.report.blocks import Table, Text, Verdict, text_table, to_html, write_report
from electra.report.command import main
from electra.report.evaluation import options_of
from electra.report.metrics import PRETRAINING_METRICS
from electra.report.results import Metric, SeedScores, append_result, by_name, read_results
from electra.tasks.glue.report import GLUE_REPORTING as GLUE
from electra.tasks.glue.tasks import GLUE_TASKS
from electra.tasks.squad.report import SQUAD_REPORTING as SQUAD
from electra.tasks.tagging.report import TAGGING_REPORTING as TAGGING
from tests.helpers import parametrize
from tests.tasks.glue.runs import all_tasks, result, run_folder


def test_results_are_read_back_in_order(tmp_path):
    path = tmp_path / "results.jsonl"
    assert read_results(path) == []
    for seed in (3, 1, 2):
        append_result(path, result("rte", seed, {"accuracy": 0.5, "f1": None}))
    assert read_results(path) == [result("rte", seed, {"accuracy": 0.5, "f1": None}) for seed in (3, 1, 2)]


def test_each_line_is_synced_and_one_that_was_cut_short_is_written_over(tmp_path, monkeypatch):
    path = tmp_path / "results.jsonl"
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    first, second = all_tasks("cola", "rte")
    append_result(path, first)
    whole = path.read_bytes()
    append_result(path, second)
    expected = path.read_bytes()
    path.write_bytes(expected[: len(whole) + 20])
    assert read_results(path) == [first]
    append_result(path, second)
    assert path.read_bytes() == expected and synced == [len(whole), len(expected), len(expected)]


def test_a_line_that_is_no_result_is_named(tmp_path):
    path = run_folder(tmp_path / "run", all_tasks("rte")) / "results.jsonl"
    path.write_text(path.read_text() + '{"task": "rte"}\n')
    with raises(UserError, match=r"results\.jsonl line 2"):
        read_results(path)


@parametrize(
    ("values", "median", "std"),
    [
        ((0.1, 0.9, 0.4, 0.5), 0.45, math.sqrt((0.375**2 + 0.425**2 + 0.075**2 + 0.025**2) / 3)),
        ((0.5,), 0.5, None),
        ((None, 0.4, 0.6), 0.4, None),
        ((None, 0.6), None, None),
    ],
)
def test_a_median_counts_undefined_values_as_the_worst(values, median, std):
    seed_scores = SeedScores(dict(enumerate(values)))
    assert [seed_scores.median, seed_scores.std] == [median, std and approx(std)]
    assert seed_scores.undefined_count == values.count(None)


def summarize(*results):
    """Return the summary of one run of GLUE."""
    return GLUE.summarize(results, "run")


def test_an_undefined_error_counts_as_the_largest():
    for name, expected in (("ece", 0.2), ("ece_matched", 0.2), ("accuracy", 0.1), ("of_no_table", 0.1)):
        run = summarize(*(result("rte", seed, {name: value}) for seed, value in enumerate((0.1, 0.2, None))))
        assert run.tasks["rte"].seed_scores(name).median == expected


def test_metrics_are_found_by_name_and_those_of_a_test_set_follow():
    error = Metric("brier", "Brier", "Mean squared error.", lower_is_better=True, error="none")
    metrics = by_name(Metric("f1", "F1"), error, test=True)
    assert [*metrics] == ["f1", "brier", "test_f1", "test_brier"] and metrics["brier"] is error
    assert metrics["test_brier"] == Metric("test_brier", "test Brier", lower_is_better=True, error="none")


def test_the_errors_of_a_kind_are_named_in_its_report():
    for row in (row for row in TASKS.values() if row.is_trained):
        reporting = reporting_of(row.kind)
        assert all(name == metric.name for name, metric in reporting.metrics.items())
        errors = {name: metric for name, metric in reporting.metrics.items() if metric.lower_is_better}
        assert {name for name in reporting.metrics if {"ece", "rmse"} & {*name.split("_")}} <= errors.keys()
        about = reporting.explanations[-1]
        assert all(metric.title in about for name, metric in errors.items() if not name.startswith("test_"))
        assert ("except" in about) == bool(errors) and {*reporting.headlines} <= {*reporting.metrics}


def test_metrics_of_pretraining_are_shares_but_for_losses_areas_and_a_correlation():
    for name, metric in PRETRAINING_METRICS.items():
        is_loss = "loss" in name
        error = "none" if is_loss or name.endswith(("auc", "entropy")) else "share"
        assert (metric.name, metric.lower_is_better) == (name, is_loss)
        assert metric.error == ("correlation" if name.endswith("mcc") else error)


def test_what_the_encoder_decided_is_among_the_options_of_an_evaluation(tmp_path):
    decided = {"learning_rate": 1e-3, "layerwise_lr_decay": 1.0, "num_train_epochs": 5.0, "head": "hf_mean"}
    settings = {**decided, "max_length": 64, "seen": "another setting"}
    folder = run_folder(tmp_path / "run", [result("rte", 42, {"accuracy": 0.5}, settings=settings)])
    assert options_of(folder) == {**decided, "max_length": 64}
    (folder / "config.yaml").write_text("max_length: 32\n")  # given
    other = {**settings, "learning_rate": 1e-4, "head": "linear"}
    append_result(folder / "results.jsonl", result("rte", 43, {"accuracy": 0.5}, settings=other))
    assert options_of(folder) == {"max_length": 32, "layerwise_lr_decay": 1.0, "num_train_epochs": 5.0}
    tagging = result("rte", 42, {"accuracy": 0.5}, settings={"head": "linear"})  # that of a tagger is no option
    assert options_of(run_folder(tmp_path / "other", [tagging])) == {}


def test_rows_that_are_not_the_official_ones_are_said_of_each_split():
    """Of the demonstration and of CoNLL-2003, of which copies differ, no number is official."""
    for row in (row for row in TASKS.values() if row.is_trained):
        reporting = reporting_of(row.kind)
        for name in reporting.tasks:
            splits = {"demo": [], "conll2003": [], "mnli": ["train", "dev", "dev_mismatched"]}.get(
                name, ["train", "dev"]
            )
            metrics = dict.fromkeys(reporting.metrics, 0.5)
            run = reporting.summarize([result(name, 1, metrics, rows=dict.fromkeys(splits, 1))], "run")
            remarks = [one for block in reporting.section([run])[1:] for one in block.texts]
            assert len(remarks) == len(splits)
            assert all(f" {split} (1 instead of " in said for split, said in zip(splits, remarks, strict=True))


def test_one_encoder_may_have_several_names():
    settings = {"encoder": "fingerprint"}
    results = [result("rte", seed, {"accuracy": 0.5}, model=("a", "a/")[seed], settings=settings) for seed in (0, 1)]
    assert len(summarize(*results).tasks["rte"].results) == 2


def test_seeds_are_in_order_and_their_failures_counted():
    summary = summarize(
        result("stsb", 44, {"pearson": 0.8, "spearman": 0.7}),
        result("stsb", 42, {"pearson": None, "spearman": None}, collapsed=True),
        result("stsb", 43, {"pearson": 0.6, "spearman": math.nan}, rows={"train": 100, "dev": 1500}),
    ).tasks["stsb"]
    assert list(summary.headline.values.items()) == [(42, None), (43, None), (44, 0.7)]
    assert list(summary.metrics["pearson"].values.values()) == [None, 0.6, 0.8]
    assert (summary.collapsed_count, summary.headline.undefined_count, len(summary.results)) == (1, 2, 3)
    one_set = summarize(result("mnli", 1, {"accuracy_matched": 0.8})).tasks["mnli"]
    assert one_set.headline.median is None and one_set.metrics["accuracy_matched"].median == 0.8


@parametrize("task", GLUE_TASKS)
def test_without_one_task_there_is_no_average(task):
    undefined = result(task, 42, dict.fromkeys(("accuracy", "mcc", "spearman"), None))
    demo = result("demo", 42, {"mcc": 0.9, "accuracy": 0.9})
    for instead in (demo, undefined):
        averages = summarize(*all_tasks(without=(task,)), instead).averages
        assert averages["GLUE"] is None
        # AVG leaves out WNLI, the last one: of 0.51 to 0.58, where the mean of MNLI's halves is 0.02 more.
        assert averages["AVG"] == (approx(4.38 / 8) if task == "wnli" else None)


def test_encoders_and_tasks_of_another_kind_are_never_mixed():
    runs = [("b", 1, 0.5), ("a", 1, 0.9), ("b", 2, 0.7)]
    results = [result("rte", seed, {"accuracy": accuracy}, model=model) for model, seed, accuracy in runs]
    with raises(UserError, match="run has results of 2 encoders"):
        summarize(*results)
    with raises(UserError, match="'squad'"):
        summarize(result("squad", 7, {"f1": 0.5}))


def test_kinds_are_never_mixed(tmp_path):
    for kind in ("classify", "tagging"):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / "environment.json").write_text(f'{{"kind": "{kind}"}}')
    with raises(UserError, match="hold classify, tagging;"):
        main([str(tmp_path / kind) for kind in ("classify", "tagging", "none")])


def test_medians_stand_beside_published_rows_of_their_task(tmp_path):
    scores = ({"f1": 0.9, "accuracy": 0.98, "f1_PER": 0.7}, {"f1": 0.91, "accuracy": 0.99})
    runs = [result("conll2003", seed, {**metrics}) for seed, metrics in enumerate(scores)]
    run = run_folder(tmp_path / "a", runs)
    write_report(TAGGING.report([run]), run)
    markdown = (run / "report.md").read_text()
    assert "| a | 2 | 90.5 ± 0.7 | 98.5 ± 0.7 | output/small | pretrained | 13.5 M |" in markdown
    assert "| a (this report) | 90.5 |  | median of 2 runs |" in markdown
    assert "| BERT-Large | 96.6 | 92.8 |" in markdown and "f1_PER" in markdown
    run_on_own_data = run_folder(tmp_path / "b", [result("mine", 1, {"f1": 0.5})])
    write_report(TAGGING.report([run_on_own_data]), run_on_own_data)
    assert "BERT" not in (run_on_own_data / "report.md").read_text()


def test_the_table_of_a_terminal_has_a_row_per_score_and_its_unit(tmp_path):
    (first,) = all_tasks("rte")
    of_two_seeds = [first, replace(first, seed=43)]
    for name, results, unit in (("a", [first], "percent"), ("b", of_two_seeds, "percent, median ± std")):
        report = GLUE.report([run_folder(tmp_path / name, results)])
        lines = text_table(report.table).splitlines()
        assert [line.split("  ")[0] for line in lines] == [unit, "Seeds", "RTE acc"]
        assert Text(f"Scores in {unit}.") in report.blocks


@parametrize(
    ("task", "metrics", "kind", "title"),
    [
        ("squad_v1", {"exact_match": 0.5, "f1": 0.6}, "squad", "SQuAD"),
        ("rte", {"accuracy": 0.5}, "multiple_choice", "Multiple choice"),
        ("conll2003", {"accuracy": 0.5}, "tagging", "Tagging"),  # parts of speech
    ],
)
def test_the_command_writes_to_its_output_alone(tmp_path, task, metrics, kind, title):
    run = run_folder(tmp_path / "a", [result(task, 1, metrics)], kind)
    output = tmp_path / "out" / "here"
    before = sorted(run.iterdir())
    main([str(run), "--output", str(output)])
    markdown = (output / "report.md").read_text()
    assert markdown.startswith(f"# {title} results: ") and "| 50.0 |" in markdown
    assert {path.name for path in output.iterdir()} == {"report.md", "report.html"}
    assert sorted(run.iterdir()) == before


def test_a_verdict_on_several_tasks_tells_above_level_and_below(tmp_path):
    of_few_rows = result("wnli", 42, {"accuracy": 0.9}, rows={"train": 635, "dev": 49})
    runs = [*all_tasks("cola", "sst2", "rte", "qqp"), of_few_rows]  # .51, .52, .53 and .54
    folder = run_folder(tmp_path / "a", runs)
    (folder / "predictions").mkdir()
    for run, score in zip(runs, (0.0, 0.4, 0.53, 0.6, 0.1), strict=True):
        scores = {"majority or mean": dict.fromkeys(run.metrics, score)}
        (folder / "predictions" / f"{run.task}-42-baselines.json").write_text(json.dumps(scores))
    (verdict,) = GLUE.verdicts([folder])
    assert "on 2 of 4 tasks; level on RTE; below on QQP; no verdict on WNLI." in verdict.text and not verdict.is_good


def test_a_run_that_is_older_than_a_metric_does_not_count_for_it(tmp_path):
    older = [result("stsb", 1, {"spearman": 0.5}), result("stsb", 2, {"spearman": 0.7, "pearson": 0.2})]
    seed_scores = summarize(*older).tasks["stsb"].seed_scores("pearson")
    assert (seed_scores.median, seed_scores.std, seed_scores.undefined_count) == (0.2, None, 0)
    folder = run_folder(tmp_path / "a", [*older, result("stsb", 3, {"spearman": 0.6, "pearson": 0.4})])
    write_report(GLUE.report([folder]), folder)
    row = next(line for line in (folder / "report.md").read_text().splitlines() if line.startswith("| a | Pearson"))
    assert [cell.strip() for cell in row.split("|")][3:-1] == ["30.00", "14.14", "not measured", "20.00", "40.00"]


def test_without_a_baseline_a_verdict_is_neither_good_nor_bad(tmp_path):
    run = result("squad_v1", 1, {"exact_match": 0.5, "f1": 0.6}, rows={"dev": 10_570})
    folder = run_folder(tmp_path / "a", [run], "squad")
    (verdict,) = SQUAD.verdicts([folder])
    assert verdict == ("SQuAD 1.1 F1 60.0 % with 1 seed, so without a spread (--num_seeds 5 gives one).", None)
    assert '<p class="verdict">' in to_html("", [verdict])


def test_a_chart_has_every_seed_their_median_and_the_baseline(tmp_path):
    folder = run_folder(tmp_path / "a", [result("rte", seed, {"accuracy": seed / 100}) for seed in (50, 60, 70)])
    (folder / "predictions").mkdir()
    for seed in (50, 60, 70):
        path = folder / "predictions" / f"rte-{seed}-baselines.json"
        path.write_text(json.dumps({"majority or mean": {"accuracy": 0.5}}))
    runs = [*GLUE.read_summaries([folder]), *GLUE.read_baselines([folder])]
    (chart,) = GLUE.charts(runs)
    assert chart.title == "RTE acc, percent" and chart.lines == {"one answer to all": approx(50)}
    row = chart.rows["a"]
    assert [dot.score for dot in row["seed"]] == approx([50, 60, 70])
    assert [tuple(dot) for dot in row["median ± std"]] == [(approx(60), approx(10))]


@parametrize(("seeds", "charts"), [((1,), 0), ((1, 2), 1)])
def test_a_single_score_has_no_chart(tmp_path, seeds, charts):
    results = [result("squad_v1", seed, {"exact_match": 0.5, "f1": 0.6}) for seed in seeds]
    folder = run_folder(tmp_path / "a", results, "squad")
    assert len(SQUAD.charts(SQUAD.read_summaries([folder]))) == charts


def test_numbers_with_and_without_a_spread_stay_aligned():
    table = Table(["", "score", "other"], [["a", "81.2 ± 0.4", "1.0"], ["b", "79.9", "2.0"]])
    assert [table.has_spread(column) for column in range(3)] == [False, True, False]
    page = to_html("", [table])
    assert '<td class="number">81.2<span class="spread"> ± 0.4</span></td><td class="number">1.0</td>' in page
    assert '<td class="number">79.9<span class="spread"></span></td>' in page
    counted = to_html(
        "", [Table(["", "score", "size"], [["a", "81.2 ± 0.4 (1 of 3 collapsed)", "3 layers (each 64)"]])]
    )
    assert '<span class="spread"> ± 0.4</span><span class="note"> (1 of 3 collapsed)</span></td>' in counted
    assert '<td class="number">3 layers (each 64)</td>' in counted


def test_a_row_has_the_number_of_collapsed_runs_once(tmp_path):
    metrics = {"f1": 0.5, "accuracy": 0.6}
    runs = [result("conll2003", seed, metrics, collapsed=seed == 1) for seed in (1, 2)]
    table = TAGGING.report([run_folder(tmp_path / "a", runs, "tagging")]).table
    assert [row[1] for row in table.rows] == ["2", "50.0 ± 0.0 (1 of 2 collapsed)", "60.0 ± 0.0"]


def test_a_terminal_aligns_words_with_marks():
    lines = text_table(Table(["word", "p"], [["แอคคอร์ด", "0.1"], ["อาหาร", "0.25"], ["好き", "1"]])).splitlines()
    assert len(lines) == 4 and len({columns_of(line) for line in lines}) == 1


def test_a_page_says_what_it_is_of_and_names_no_folder_of_the_machine(tmp_path):
    runs = [
        result("mine", seed, {"f1": 0.5, "f1_PER": 0.4}, model="/home/ann/small", rows={"dev": 7}) for seed in (1, 2)
    ]
    folder = run_folder(tmp_path / "a", runs, "tagging")
    options = {"train_file": "/home/ann/names.txt", "hub_token": "secret", "output_dir": "/home/ann/output"}
    (folder / "config.yaml").write_text(yaml.safe_dump(options))
    (folder / "environment.json").write_text(json.dumps({"kind": "tagging", "date": "2026-11-28"}))
    report = TAGGING.report([folder])
    assert report.title == "Tagging results: mine"
    assert report.blocks[0] == Text("a: names.txt, 7 sentences for development, 2 seeds, from small, 2026-11-28")
    verdict, what_to_do = (block for block in report.blocks if isinstance(block, Verdict))
    assert verdict.text.startswith("mine F1 50.0 ± 0.0 %")
    assert "no verdict" in verdict.text and "--validation_fraction" in what_to_do.text
    write_report(report, folder)
    for name in ("report.md", "report.html"):
        page = re.sub("</?span.*?>", "", (folder / name).read_text())
        assert "/home" not in page and "secret" not in page and "--train_file names.txt" in page.replace("\\", "")
    types = next(block for block in report.blocks if isinstance(block, Table) and block.header[0] == "type")
    assert types.rows == [["PER", "40.0 ± 0.0"]]
