"""The page: its curves are the log, and it is small and complete; the picture; the command."""

import base64
import json
import math
import re
import subprocess
import sys
from collections import Counter
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pytest import approx, raises

from electra.base.samples import Sample, write_samples
from electra.core.errors import UserError
from electra.pretraining.plan import Plan
from electra.report.blocks import Code, Figure, Table, Text, to_html, without_folders
from electra.report.command import main
from electra.report.drawing import Curve, draw_curves
from electra.report.metrics import PRETRAINING_METRICS, make_panels, metric_title
from electra.report.page import RUN_SIZES, efficiency_section, report_blocks, try_to_report, write_run_report
from electra.report.runs import RunRecord, read_run
from tests.helpers import ROOT
from tests.report.folders import evaluation_logs, finished_run, logs_until, write_state
from tests.tasks.glue.runs import all_tasks, run_folder


def page_of(*folders):
    """Return the HTML of the report of these runs."""
    runs = [read_run(folder) for folder in folders]
    return to_html("a page", report_blocks(runs, make_panels(runs)))


def drawn(*folders):
    """Return the points of the lines of each chart by its title, from matplotlib's figure."""
    runs = [read_run(folder) for folder in folders]
    points = {}
    panels = {metric_title(name): curves for name, curves in make_panels(runs).items()}
    for axes in draw_curves(panels, [run.name for run in runs]).axes:
        points[axes.get_title()] = [[(float(x), float(y)) for x, y in line.get_xydata()] for line in axes.lines]
    return points


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page of a finished run with samples."""
    folder = finished_run(tmp_path_factory.mktemp("run"), learning_rate=5e-4, note="<b>&")
    sample = Sample([" the", " cat<"], [" the", " [MASK]"], [" the", " dog"], [0.0, 0.8], None)
    write_samples([sample], folder, step=8)
    return page_of(folder)


def test_a_page_begins_with_the_verdict(page):
    on_discriminator, on_generator = re.findall(r'<p class="verdict (\w+)">(.*?)</p>', page)
    assert on_discriminator == ("good", "step 100: the discriminator has started to learn")
    assert on_generator[0] == "bad" and "not clearly above token frequencies" in on_generator[1]
    assert page.index(on_generator[1]) < page.index("<h2>Curves</h2>")


def test_a_page_ends_with_the_next_step_and_explains_its_terms(page, tmp_path):
    assert "electra classify" in page[page.rindex("</details>") :]
    assert "<li>Started: " in page and "<p>6 N T and attention: " in page
    late = finished_run(tmp_path / "late")
    metrics = json.loads((late / "metrics.json").read_text())
    (late / "metrics.json").write_text(json.dumps({**metrics, "verdict": "it has not started to learn"}))
    end = page_of(late).rpartition("</details>")[2]
    assert "before they are worth fine-tuning" in end and "electra classify" not in end
    assert "worth fine-tuning" not in page_of(write_state(tmp_path / "unfinished", logs_until(40)))


def test_no_line_ends_inside_an_option():
    page = to_html("a page", [Text("<b> --num_seeds 5"), Code("electra tag --seed 1", "bash")])
    for unbroken in (
        '&lt;b&gt; <span class="unbroken">--num_seeds</span> 5',
        'tag <span class="unbroken">--seed</span> 1',
    ):
        assert unbroken in page


def test_a_run_that_logged_no_metric_has_a_page_without_curves(tmp_path):
    folder = write_state(tmp_path / "run", [{"step": 5, "train_runtime": 3.0}])
    page_file, picture_file = write_run_report([folder])
    assert "<h2>Curves</h2>" not in page_file.read_text()
    assert picture_file.is_file()


def test_metrics_have_titles_and_definitions(page):
    assert '<th scope="row">generator accuracy at [MASK]</th>' in page and "masked accuracy" not in page
    assert "Discriminator AUC: probability that a replaced token gets a higher score" in page
    assert metric_title("masked_accuracy_mask_token") == "generator accuracy at [MASK]"
    assert metric_title("discriminator_precision") == "discriminator precision"
    assert metric_title("grad_norm") == "grad norm"


def test_tables_hold_results_plan_compute_options_and_no_secret(page):
    assert '<th scope="row">discriminator AUC</th><td class="number">0.500</td><td class="number">0.550</td>' in page
    assert '<th scope="row">training, by 6 N T and attention</th><td class="number">2e+11 FLOP</td>' in page
    assert '<th scope="row">training steps alone</th><td class="number">1 d 00 h</td>' in page
    assert '<th scope="row">main network</th><td class="number">3 layers</td>' in page
    assert "&lt;b&gt;&amp;" in page and "<b>&" not in page
    assert "hf_abc" not in page
    assert '<s>cat&lt;</s> <b class="changed suspected" title="P(replaced) 0.800">dog</b>' in page
    assert ": a/books.txt, 7 documents, 900 tokens, 100 steps of 8 x 16 tokens" in page


def test_each_size_of_a_plan_and_each_cost_has_a_row():
    numbers = {name: 1000 + number for number, name in enumerate(RUN_SIZES)}
    plan = {name: numbers.pop(name) for name in [f.name for f in fields(Plan)] if name in numbers}
    of_steps = {"segments_per_epoch", "tokens_per_step", "checkpoint_steps", "padding"}  # others follow from them
    as_options = {"uniform_generator", "generator_steps", "tie"}
    as_sentences = {"sources", "changes"}
    assert {f.name for f in fields(Plan)} - plan.keys() == of_steps | as_options | as_sentences
    costs = {"tokens", "training_seconds", "tokens_per_second", "device", "devices", "dtype", "peak_flops_per_second"}
    assert numbers.keys() == costs
    run = RunRecord("run", Path("run"), [], 5, {"plan": plan, "compute": numbers})
    (table,) = re.findall(r"Plan and cost</summary>(.*?)</table>", to_html("", report_blocks([run], {})), re.DOTALL)
    assert table.count("<tr>") == 1 + len(RUN_SIZES)


def test_the_page_is_complete_and_loads_nothing(page):
    opened = Counter(re.findall(r"<([a-z0-9]+)[\s>]", page.replace("<!DOCTYPE", "")))
    closed = Counter(re.findall(r"</([a-z0-9]+)>", page)) + Counter(re.findall(r"<([a-z0-9]+)[^>]*/>", page))
    assert opened - closed == Counter({"meta": 3, "img": 2})
    pictures = re.findall(r'src="data:image/svg\+xml;base64,([^"]*)"', page)
    leading, folded = (base64.b64decode(picture) for picture in pictures)
    assert b">discriminator AUC<" in leading and b">generator accuracy at [MASK]<" in leading
    assert b"total loss" not in leading
    assert b">total loss<" in folded and page.index("<details>") > page.index(pictures[0])
    assert not re.search(r"href=|src=\"(?!data:)|url\(|@import|<script|<link|https?:", page)
    light, dark = (set(re.findall(r"(--\w+):", part)) for part in page.split("prefers-color-scheme: dark", 1))
    used = set(re.findall(r"var\((--\w+)\)", page))
    assert used and used <= light and used <= dark


def test_what_shows_whether_networks_learn_leads_the_page():
    """At [MASK] rather than at all chosen positions, where both are known."""
    titles = "discriminator AUC, generator accuracy at [MASK], minimal pairs, linear probe, "
    for without, of_language_model in (({}, "MLM accuracy at [MASK]"), ({"mlm_accuracy_mask_token"}, "MLM accuracy")):
        line = {"step": 5, **{f"eval_{name}": 0.5 for name in PRETRAINING_METRICS if name not in without}}
        run = RunRecord("run", Path("run"), [line], 5)
        first = next(block for block in report_blocks([run], make_panels([run])) if isinstance(block, Figure))
        assert first.text == f"Curves of {titles}{of_language_model}, accuracy at all tokens, copy gate AUC"


def test_numbers_are_aligned_and_shares_in_percent(tmp_path):
    table = Table(["", "some", "words"], [["a", "-1.5", "x"], ["b", "", "2"], ["c", "", "y"], ["d", "–", "z"]])
    assert [table.is_number(column) for column in range(3)] == [False, True, False]
    page = page_of(finished_run(tmp_path / "run"))
    names = ("generator accuracy at [MASK]", "generator loss (nats)")
    cells = {name: re.search(f">{re.escape(name)}</th>(.*?)\n", page)[1] for name in names}
    assert " %<" in cells["generator accuracy at [MASK]"] and "%" not in cells["generator loss (nats)"]


def test_two_evaluations_are_points_and_three_a_line():
    def line(x):
        """Draw a curve with these points; return its line."""
        return draw_curves({"discriminator AUC": [Curve(0, "held-out", x, x)]}, ["run"]).axes[0].lines[0]

    assert line([0.0, 1.0]).get_linestyle() == "None" and line([0.0, 1.0]).get_marker() == "o"
    assert line([0.0, 1.0, 2.0]).get_linestyle() == "-"


def test_several_runs_share_charts(tmp_path):
    ended_run = finished_run(tmp_path / "one")
    begun_run = write_state(tmp_path / "other" / "checkpoint-40", logs_until(40)).parent
    page = page_of(ended_run, begun_run)
    lines = drawn(ended_run, begun_run)["total loss"]
    # Training and held-out text of each run, at 64 tokens per step; the other was evaluated last at step 25.
    assert [line[-1][0] for line in lines] == [6400, 6400, 2560, 1600] and lines[2][-1] == (2560.0, 26.0)
    assert re.search(r"<li>other has not ended; .*step 40 of 100</li>", page)


def test_a_run_that_is_shorter_than_its_logging_interval_is_beside_another(tmp_path):
    ended_run, short = finished_run(tmp_path / "one"), finished_run(tmp_path / "short")
    write_state(short, evaluation_logs([0, 100]))
    lines = drawn(ended_run, short)["discriminator AUC"]
    assert {line[-1][0] for line in lines} == {6400}
    (short / "metrics.json").unlink()
    with raises(UserError, match="no line of training"):
        drawn(ended_run, short)


def test_paths_below_the_current_folder_are_shown_as_they_can_be_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = (
        f"--tokenizer_path {tmp_path}/sub/th --train_file '{tmp_path}/a.txt' --cache_dir /mnt{tmp_path}/cache a/b"
    )
    assert without_folders(command) == "--tokenizer_path sub/th --train_file 'a.txt' --cache_dir cache a/b"


def test_a_long_log_makes_a_small_page():
    losses = np.random.default_rng(0).normal(25, 1, size=10_000)
    logs = [{"step": step, "loss": loss, "tokens_seen": step} for step, loss in enumerate(losses.tolist(), start=1)]
    runs = [RunRecord(f"run{number}", Path("run"), logs, 10_000) for number in range(8)]
    # All 80,000 points, of some ten bytes each, would be more than three times as much.
    assert len(to_html("", report_blocks(runs, make_panels(runs))).encode()) < 250_000


def test_values_that_are_not_finite_leave_a_gap(tmp_path):
    logs = [{"step": step, "loss": loss} for step, loss in ((1, math.nan), (2, math.inf), (3, 1.0), (4, 2.0))]
    folder = write_state(tmp_path / "run", logs)
    (line,) = drawn(folder)["total loss"]
    assert [math.isfinite(loss) for _, loss in line] == [False, False, True, True] and line[2:] == [(3, 1), (4, 2)]
    _, picture_file = write_run_report([folder])
    assert picture_file.read_bytes().startswith(b"\x89PNG")


def test_one_run_is_reported_in_its_folder_and_several_in_another(tmp_path):
    run = finished_run(tmp_path / "one")
    other_run = finished_run(tmp_path / "other")
    page_file, picture_file = write_run_report([run])
    assert page_file == run / "report.html" and picture_file == run / "training_curves.png"
    assert Image.open(picture_file).size == (1584, 891)  # three rows of four panels
    before = page_file.read_text()
    main([str(run), str(other_run), "--output", str(tmp_path / "both")])
    assert (tmp_path / "both" / "report.html").is_file() and page_file.read_text() == before


def test_files_of_others_in_the_output_folder_are_left_alone(tmp_path):
    run = finished_run(tmp_path / "run")
    for name in ("report.html", "report.md", "training_curves.png"):
        output = tmp_path / name.replace(".", "_")
        output.mkdir()
        (output / name).write_text("mine")
        with raises(UserError, match=f"{name} is no report .*--output"):
            main([str(run), "--output", str(output)])
        assert [path.read_text() for path in output.iterdir()] == ["mine"]
    for _ in range(2):  # an earlier report is no file of others
        main([str(run), "--output", str(tmp_path / "new")])
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"report.html", "training_curves.png"}


def test_glue_stands_in_the_report_of_its_run(tmp_path):
    run = finished_run(tmp_path / "run")
    main([str(run), "--glue", str(run_folder(tmp_path / "glue", all_tasks())), "--output", str(tmp_path / "a")])
    page = (tmp_path / "a" / "report.html").read_text()
    assert '<th scope="row">glue</th><td class="number">1</td>' in page and "<h2>Cost of the score</h2>" in page
    assert not (run / "report.html").exists()


def test_the_cost_of_a_score_is_time_times_peak_times_a_third(tmp_path):
    run = read_run(finished_run(tmp_path / "run"))
    table = efficiency_section(run, {"AVG": 0.548, "GLUE": None})[1]
    row_of_run, *published = table.rows
    # 2 devices x 1 day x 0.5 TFLOP/s x 0.33 / 1000; 8.64e19 FLOPs
    assert row_of_run == [
        "run", "0.001 M", "1 d 00 h on 2 x a computer", "3.3e-04", "1.000", "54.8", "", "6.0e-04", "",
    ]  # fmt: skip
    for name, devices, days, peak in (("GPT", 8, 30, 12.0), ("DistilBERT", 8, 3.75, 15.7)):
        row = next(row for row in published if row[0] == name)
        assert float(row[3]) == approx(devices * days * peak * 0.33 / 1000, abs=6e-4)  # three decimals are shown
    assert efficiency_section(replace(run, metrics={}), {}) == []


def test_a_folder_without_results_is_refused(tmp_path):
    with raises(UserError, match="has no results"):
        main([str(finished_run(tmp_path / "run")), "--glue", str(tmp_path)])


def test_after_a_run_a_report_that_fails_is_left_out(tmp_path):
    assert try_to_report(tmp_path / "nothing") == []


def test_reports_import_no_torch():
    code = (
        "import sys, electra.report.command; from electra.finetuning.registry import TASKS, part; "
        "[part(row.report) for row in TASKS.values() if row.report]; print(sorted(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "'electra.report.command'" in done.stdout
    assert "'torch'" not in done.stdout and "'transformers'" not in done.stdout
