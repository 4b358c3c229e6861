"""The page: its curves read back are the log, and it is small and complete; the picture; the command."""

import json
import math
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from electra.io.errors import UserError
from electra.report.__main__ import main
from electra.report.curves import make_panels
from electra.report.page import report_page, try_to_report, write_report
from electra.report.runs import RunRecord, read_runs
from electra.samples import Sample, write_samples
from tests.report.folders import finished_run, logs_until, write_state
from tests.tasks.glue.runs import all_tasks, run_folder

ROOT = Path(__file__).parents[2]
Points = list[tuple[float, float]]


def page_of(*folders: Path) -> str:
    """The page without the picture, which takes a second."""
    runs = read_runs(list(folders))
    return report_page(runs, make_panels(runs), "steps")


def charts(page: str) -> dict[str, dict[str, Points]]:
    """Title -> label of a curve -> its points, back in the units of the log."""
    found: dict[str, dict[str, Points]] = {}
    for text in re.findall(r'<svg class="chart".*?</svg>', page, flags=re.DOTALL):
        svg = ElementTree.fromstring(text)
        unit = float(svg.attrib["data-unit"])
        title = svg.findtext("title") or ""
        found[title] = {}
        for line in svg.iter("polyline"):
            pairs = (pair.split(",") for pair in line.attrib["points"].split())
            found[title][line.findtext("title") or ""] = [(float(x) * unit, float(y)) for x, y in pairs]
    return found


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of a finished run with samples."""
    folder = finished_run(tmp_path_factory.mktemp("run"), learning_rate=5e-4, note="<b>&")
    sample = Sample([" the", " cat<"], [" the", " [MASK]"], [" the", " dog"], [0.0, 0.8], None)
    write_samples([sample], folder)
    return page_of(folder)


def test_the_curves_on_the_page_are_the_log(page: str) -> None:
    drawn, logs = charts(page), logs_until(100)
    expected = [(float(line["step"]), line["loss"]) for line in logs if "loss" in line]
    assert drawn["total loss"]["training"] == expected
    expected = [(float(line["step"]), line["eval_discriminator_auc"]) for line in logs if "eval_loss" in line]
    np.testing.assert_allclose(drawn["discriminator AUC"]["held-out"], expected, rtol=1e-8)
    assert drawn["generator loss"]["frequencies"] == [(0.0, 6.25), (100.0, 6.25)]


def test_tables_hold_results_plan_compute_options_and_no_secret(page: str) -> None:
    assert '<th scope="row">discriminator AUC</th><td class="number">0.5000</td><td class="number">0.5500</td>' in page
    assert '<th scope="row">FLOPs, 6 N T and attention</th><td class="number">2e+11</td>' in page
    assert '<th scope="row">training</th><td class="number">1 d 00 h</td>' in page and "12.3 %" in page
    assert '<th scope="row">discriminator</th><td class="number">3 layers</td>' in page
    assert "&lt;b&gt;&amp;" in page and "<b>&" not in page
    assert "hf_abc" not in page
    assert '<dt>masked</dt><dd>the <b class="changed">[MASK]</b></dd>' in page and "was cat&lt;" in page


def test_the_page_is_complete_and_loads_nothing(page: str) -> None:
    opened = Counter(re.findall(r"<([a-z0-9]+)[\s>]", page.replace("<!DOCTYPE", "")))
    closed = Counter(re.findall(r"</([a-z0-9]+)>", page)) + Counter(re.findall(r"<([a-z0-9]+)[^>]*/>", page))
    assert opened - closed == Counter({"meta": 2})
    assert not re.search(r"(?:src|href)=|url\(|@import|<script|<link|https?:", page)
    light, dark = (set(re.findall(r"(--\w+):", part)) for part in page.split("prefers-color-scheme: dark", 1))
    used = set(re.findall(r"var\((--\w+)\)", page))
    assert used and used <= light and used <= dark


def test_several_runs_share_charts_and_a_legend(tmp_path: Path) -> None:
    one = finished_run(tmp_path / "one")
    metrics = json.loads((one / "metrics.json").read_text())
    metrics["plan"]["main_network"] = "masked LM"
    (one / "metrics.json").write_text(json.dumps(metrics))
    assert '<th scope="row">masked LM</th>' in page_of(one)
    other = write_state(tmp_path / "other" / "checkpoint-40", logs_until(40)).parent
    page = page_of(one, other)
    drawn = charts(page)["total loss"]
    assert list(drawn) == ["one, training", "one, held-out", "other, training", "other, held-out"]
    assert drawn["other, training"][-1] == (40.0, 26.0)
    assert "one</li>" in page and "other</li>" in page  # the legend
    assert re.search(r"<li>other has no metrics.json.*step 40 of 100</li>", page)
    assert '<th scope="row">main network</th>' in page


def test_a_long_log_makes_a_small_page_and_keeps_its_spikes() -> None:
    losses = np.random.default_rng(0).normal(25, 1, size=10_000)
    losses[4_321] = 99.0
    logs = [{"step": step, "loss": loss} for step, loss in enumerate(losses.tolist(), start=1)]
    runs = [RunRecord(f"run{number}", Path("run"), logs, 10_000) for number in range(8)]
    page = report_page(runs, make_panels(runs), "steps")
    assert len(page.encode()) < 100_000
    drawn = charts(page)["total loss"]
    assert len(drawn) == 8 and all((4_322.0, 99.0) in points for points in drawn.values())


@pytest.mark.parametrize(
    ("logs", "drawn", "note"),
    [
        ([{"step": 0, "eval_loss": 5.0, "tokens_seen": 0}], {"total loss": {"held-out": [(0.0, 5.0)]}}, ""),
        ([{"step": 1, "loss": math.nan}], {}, "1 values of total loss (training) are not finite"),
        (
            [{"step": step, "loss": loss} for step, loss in ((1, -1.7e308), (2, 1.7e308), (3, 1.0))],
            {"total loss": {"training": [(3.0, 1.0)]}},
            "2 values of total loss (training) are not finite",
        ),
    ],
)
def test_a_report_is_written_of_odd_numbers_too(
    tmp_path: Path, logs: list[dict[str, float]], drawn: dict[str, Any], note: str
) -> None:
    page_file, picture_file = write_report([write_state(tmp_path / "a$b$", logs)])
    page = page_file.read_text()
    assert charts(page) == drawn and note in page
    assert picture_file.read_bytes().startswith(b"\x89PNG")


def test_the_files_of_one_run_and_of_several(tmp_path: Path) -> None:
    one, other = finished_run(tmp_path / "one"), finished_run(tmp_path / "other")
    page_file, picture_file = write_report([one])
    assert page_file == one / "report.html" and picture_file == one / "training_curves.png"
    assert Image.open(picture_file).size == (1584, round(110 * (3 * 2.5 + 0.6)))  # three rows of four panels
    main([str(one), str(other), "--x", "flops"])
    page = (tmp_path / "comparison.html").read_text()
    assert charts(page)["total loss"]["one, training"][-1][0] == pytest.approx(2e11) and "billion FLOPs" in page
    assert (tmp_path / "comparison.png").is_file()


def test_glue_results_stand_in_the_report_and_in_the_model_card_once(tmp_path: Path) -> None:
    run = finished_run(tmp_path / "run")
    (run / "discriminator").mkdir()
    card = run / "discriminator" / "README.md"
    card.write_text("# Card\n\n## License\nto fill in\n")
    words = [str(run), "--glue", str(run_folder(tmp_path / "glue", all_tasks())), "--output", str(tmp_path / "a.html")]
    main(words)
    first = card.read_text()
    assert first.startswith("# Card\n\n## License\nto fill in\n\n## GLUE, development sets, percent\n")
    assert "| glue | 1 | 51.0 |" in first and "AVG" in first
    card.write_text(first + "\n## My own words\nkept\n")
    main(words)
    assert card.read_text() == first + "\n## My own words\nkept\n"
    row = '<th scope="row">glue</th><td class="number">1</td><td class="number">51.0</td>'
    assert row in (tmp_path / "a.html").read_text() and (tmp_path / "a.png").is_file()
    assert not (run / "report.html").exists()


def test_bad_requests_are_refused_in_a_line(tmp_path: Path) -> None:
    run = finished_run(tmp_path / "run")
    for argv, message in (
        ([str(run), str(finished_run(tmp_path / "b")), "--glue", str(tmp_path)], "--glue belongs to one run"),
        ([str(run), "--glue", str(tmp_path)], "has no results.jsonl"),
        ([str(run), "--output", str(tmp_path / "x.png")], r"x\.png .*\.html"),
        ([str(finished_run(tmp_path / f"r{n}")) for n in range(9)], "9 runs"),
    ):
        with pytest.raises(UserError, match=message):
            main(argv)
    assert try_to_report(tmp_path / "nothing") == []  # after a run, a report that fails costs nothing
    with pytest.raises(OSError, match=r"config\.yaml"):
        main([str(run), "--output", str(run / "config.yaml" / "x.html")])


def test_reports_sweeps_and_costs_import_no_torch() -> None:
    code = (
        "import sys, electra.report.__main__, electra.efficiency, electra.sweep.__main__; print(sorted(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "'electra.sweep.__main__'" in done.stdout
    assert "'torch'" not in done.stdout and "'transformers'" not in done.stdout
