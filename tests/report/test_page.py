"""The page: its curves read back are the log, it is small, whole, and fits a telephone; the picture is one."""

import json
import math
import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from electra.errors import UserError
from electra.report.__main__ import main
from electra.report.curves import Axis, make_panels
from electra.report.page import report_page, try_to_report, write_report
from electra.report.runs import RunRecord
from electra.samples import Sample, write_samples
from tests.report.folders import finished_run, logs_until, training_logs, write_state
from tests.tasks.glue.runs import all_tasks, run_folder

Points = list[tuple[float, float]]


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


def test_the_curves_on_the_page_are_the_log(tmp_path: Path) -> None:
    page_file, _ = write_report([finished_run(tmp_path)])
    drawn = charts(page_file.read_text())
    logs = logs_until(100)
    expected = [(float(line["step"]), line["loss"]) for line in logs if "loss" in line]
    assert drawn["total loss"]["training"] == expected
    expected = [(float(line["step"]), line["eval_discriminator_auc"]) for line in logs if "eval_loss" in line]
    np.testing.assert_allclose(drawn["discriminator AUC"]["held-out"], expected, rtol=1e-8)
    assert drawn["generator loss"]["frequencies"] == [(0.0, 6.25), (100.0, 6.25)]
    assert drawn["learning rate"]["training"][-1] == pytest.approx((100, 1e-3 / 101))


def test_points_are_drawn_where_the_axes_say(tmp_path: Path) -> None:
    page = write_report([finished_run(tmp_path)])[0].read_text()
    svg = ElementTree.fromstring(re.search(r'<svg class="chart".*?</svg>', page, flags=re.DOTALL)[0])  # type: ignore[index]
    group = next(g for g in svg.iter("g"))
    left, bottom, sx, sy, _, low = map(float, re.findall(r"-?\d[\d.e+-]*", group.attrib["transform"]))
    labels = [(float(t.attrib["x"]), float(t.attrib["y"]), t.text or "") for t in svg.iter("text")]
    ticks_x = {float(text): x for x, y, text in labels if y == pytest.approx(bottom + 17)}
    ticks_y = {float(text): y - 4 for x, y, text in labels if x == pytest.approx(left - 6)}
    assert len(ticks_x) >= 3 and len(ticks_y) >= 3
    for value, x in ticks_x.items():
        assert left + value * sx == pytest.approx(x, abs=0.1)
    for value, y in ticks_y.items():
        assert bottom + (value + low) * sy == pytest.approx(y, abs=0.1)


@pytest.mark.parametrize(("axis", "last", "words"), [("tokens", 6400, "tokens"), ("flops", 2e11, "billion FLOPs")])
def test_another_axis_is_asked_for_by_name(tmp_path: Path, axis: str, last: float, words: str) -> None:
    main([str(finished_run(tmp_path / "run")), "--x", axis, "--output", str(tmp_path / "out.html")])
    page = (tmp_path / "out.html").read_text()
    assert charts(page)["total loss"]["training"][-1][0] == pytest.approx(last)
    assert f">{words}</text>" in page and (tmp_path / "out.png").is_file()
    assert not (tmp_path / "run" / "report.html").exists()


def test_several_runs_share_charts_and_a_legend(tmp_path: Path) -> None:
    one = finished_run(tmp_path / "one")
    other = write_state(tmp_path / "other" / "checkpoint-40", logs_until(40)).parent
    page_file, picture_file = write_report([one, other])
    assert page_file == tmp_path / "comparison.html" and picture_file == tmp_path / "comparison.png"
    page = page_file.read_text()
    drawn = charts(page)["total loss"]
    assert list(drawn) == ["one, training", "one, held-out", "other, training", "other, held-out"]
    assert drawn["other, training"][-1] == (40.0, 26.0)
    legend = re.search(r'<ul class="legend">.*?</ul>', page, flags=re.DOTALL)
    assert legend and "one</li>" in legend[0] and "other</li>" in legend[0]
    assert re.search(r"<li>other has no metrics.json.*step 40 of 100</li>", page)


def test_tables_hold_results_plan_compute_options_and_no_secret(tmp_path: Path) -> None:
    finished_run(tmp_path, learning_rate=5e-4, note="<b>&")
    page = write_report([tmp_path])[0].read_text()
    assert '<th scope="row">discriminator AUC</th><td class="number">0.5000</td><td class="number">0.5500</td>' in page
    assert '<th scope="row">FLOPs, 6 N T and attention</th><td class="number">2e+11</td>' in page
    assert '<th scope="row">training</th><td class="number">1 d 00 h</td>' in page and "12.3 %" in page
    assert "&lt;b&gt;&amp;" in page and "<b>&" not in page
    assert "hf_abc" not in page


@pytest.mark.parametrize("kind", [None, "discriminator", "masked LM"])
def test_the_plan_calls_the_main_network_what_it_is(tmp_path: Path, kind: str | None) -> None:
    metrics = json.loads((finished_run(tmp_path) / "metrics.json").read_text())
    metrics["plan"] |= {"discriminator_shape": "3 layers"} | ({"main_network": kind} if kind else {})
    (tmp_path / "metrics.json").write_text(json.dumps(metrics))
    page = write_report([tmp_path])[0].read_text()
    assert f'<th scope="row">{kind or "discriminator"}</th><td class="number">3 layers</td>' in page


def test_samples_are_coloured_by_the_probability(tmp_path: Path) -> None:
    finished_run(tmp_path)
    sample = Sample([" the", " cat<"], [" the", " [MASK]"], [" the", " dog"], [0.0, 0.8], None)
    write_samples([sample], tmp_path)
    page = write_report([tmp_path])[0].read_text()
    assert '<dt>masked</dt><dd>the <b class="changed">[MASK]</b></dd>' in page
    assert (
        'style="background:rgb(214 69 27 / 0.600)" title="P(replaced) 0.800, was cat&lt;">dog<rt>80</rt></ruby>'
        in page
    )


@pytest.mark.parametrize(("lines", "count", "most"), [(100_000, 1, 500_000), (10_000, 8, 2_000_000)])
def test_a_long_log_makes_a_small_page_and_keeps_its_spikes(lines: int, count: int, most: int) -> None:
    random = np.random.default_rng(0)
    losses = random.normal(25, 1, size=lines)
    losses[4_321] = 99.0
    logs = training_logs(list(range(1, lines + 1)), loss=losses.tolist(), grad_norm=random.random(lines).tolist())
    runs = [RunRecord(f"run{number}", Path("run"), logs, lines) for number in range(count)]
    page = report_page(runs, make_panels(runs), "steps")
    assert len(page.encode()) < most
    drawn = charts(page)["total loss"]
    assert len(drawn) == count and all((4_322.0, 99.0) in points for points in drawn.values())


def test_the_picture_is_a_png_of_its_size(tmp_path: Path) -> None:
    _, picture = write_report([finished_run(tmp_path)])
    content = picture.read_bytes()
    width, height = int.from_bytes(content[16:20], "big"), int.from_bytes(content[20:24], "big")
    assert content[:8] == b"\x89PNG\r\n\x1a\n" and width == 1584 and height == round(110 * (3 * 2.5 + 0.6))


def test_nothing_is_loaded_from_anywhere(tmp_path: Path) -> None:
    page = write_report([finished_run(tmp_path)])[0].read_text()
    assert not re.search(r"(?:src|href)=|url\(|@import|<script|<link|https?:", page)
    light, dark = (set(re.findall(r"(--\w+):", part)) for part in page.split("prefers-color-scheme: dark", 1))
    used = set(re.findall(r"var\((--\w+)\)", page))
    assert used and used <= light and used <= dark


def test_glue_results_stand_in_the_report_and_in_the_model_card_once(tmp_path: Path) -> None:
    run = finished_run(tmp_path / "run")
    (run / "discriminator").mkdir()
    card = run / "discriminator" / "README.md"
    card.write_text("# Card\n\n## License\nto fill in\n")
    glue = run_folder(tmp_path / "glue", all_tasks())
    main([str(run), "--glue", str(glue)])
    first = card.read_text()
    assert first.startswith("# Card\n\n## License\nto fill in\n\n## GLUE, development sets, percent\n")
    assert "| glue | 1 | 51.0 |" in first and "AVG" in first
    card.write_text(first + "\n## My own words\nkept\n")
    main([str(run), "--glue", str(glue)])
    assert card.read_text() == first + "\n## My own words\nkept\n"
    assert (
        '<th scope="row">glue</th><td class="number">1</td><td class="number">51.0</td>'
        in (run / "report.html").read_text()
    )


def test_bad_requests_are_refused_in_a_line(tmp_path: Path) -> None:
    run = finished_run(tmp_path / "run")
    for argv, message in (
        ([str(run), str(finished_run(tmp_path / "b")), "--glue", str(tmp_path)], "--glue belongs to one run"),
        ([str(run), "--glue", str(tmp_path)], "has no results.jsonl"),
        ([str(run), "--output", str(tmp_path / "x.png")], "x.png must be an .html file"),
        ([str(run), "--output", str(run / "config.yaml" / "x.html")], "cannot write the report"),
    ):
        with pytest.raises(UserError, match=message):
            main(argv)
    with pytest.raises(UserError, match="9 runs"):
        write_report([finished_run(tmp_path / f"r{n}") for n in range(9)])


def test_a_report_that_fails_after_a_run_costs_it_nothing(tmp_path: Path) -> None:
    try_to_report(tmp_path / "nothing")
    assert list(tmp_path.iterdir()) == []
    finished_run(tmp_path / "run")
    try_to_report(tmp_path / "run")
    assert (tmp_path / "run" / "report.html").is_file()


def test_every_element_of_the_page_is_closed(tmp_path: Path) -> None:
    page = write_report([finished_run(tmp_path)])[0].read_text()
    opened = Counter(re.findall(r"<([a-z0-9]+)[\s>]", page.replace("<!DOCTYPE", "")))
    closed = Counter(re.findall(r"</([a-z0-9]+)>", page)) + Counter(re.findall(r"<([a-z0-9]+)[^>]*/>", page))
    assert opened - closed == Counter({"meta": 2})


def test_a_metric_without_any_number_leaves_a_note_and_the_report_is_whole(tmp_path: Path) -> None:
    logs = logs_until(50)
    for line in logs:
        if "eval_loss" in line:
            line["eval_discriminator_auc"] = math.nan
    folder = finished_run(tmp_path)  # its frequencies have an AUC
    write_state(folder, logs)
    page_file, picture = write_report([folder])
    page = page_file.read_text()
    assert "3 values of discriminator AUC (held-out) are not finite" in page
    assert "discriminator AUC" not in charts(page) and charts(page)["total loss"]
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_log_of_one_loss_that_is_no_number_has_a_report_without_curves(tmp_path: Path) -> None:
    page_file, picture = write_report([write_state(tmp_path, [{"step": 1, "loss": math.nan}])])
    page = page_file.read_text()
    assert "1 values of total loss (training) are not finite" in page and charts(page) == {}
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("values", [[-1.7e308, 1.7e308, 1.0], [10**400, 1.0, 2.0], [0.7, 0.7, 0.7 + 1e-16]])
def test_numbers_that_are_too_large_or_too_close_are_no_reason_to_fail(tmp_path: Path, values: list[float]) -> None:
    write_report([write_state(tmp_path, training_logs([1, 2, 3], generator_loss=values))])
    drawn = charts((tmp_path / "report.html").read_text())["generator loss"]["training"]
    assert [y for _, y in drawn] == pytest.approx([v for v in values if abs(v) < 1e300])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("axis", ["steps", "tokens"])
def test_a_log_of_step_0_alone_has_a_report(tmp_path: Path, axis: Axis) -> None:
    logs = [{"step": 0, "eval_loss": 5.0, "tokens_seen": 0}]
    page = write_report([write_state(tmp_path, logs)], axis)[0].read_text()
    assert charts(page)["total loss"]["held-out"] == [(0.0, 5.0)]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["a$b$", "$\\frac$", "\u540d\u524d", "a\udcffb"])
def test_a_run_may_have_any_name(tmp_path: Path, name: str) -> None:
    runs = [finished_run(tmp_path / name), finished_run(tmp_path / "other")]
    page, picture = write_report(runs)
    assert name.encode(errors="backslashreplace").decode() in page.read_text() and picture.read_bytes().startswith(
        b"\x89PNG"
    )


def test_an_option_whose_name_is_no_text_is_shown(tmp_path: Path) -> None:
    folder = finished_run(tmp_path)
    (folder / "config.yaml").write_text("1: 2\n2.5: 3\n")
    page = write_report([folder])[0].read_text()
    assert ">2.5</th>" in page


@pytest.mark.parametrize("output", ["", ".", "/", ".."])
def test_an_output_that_names_no_file_is_refused(tmp_path: Path, output: str) -> None:
    with pytest.raises(UserError, match="must name a file"):
        write_report([finished_run(tmp_path)], output=Path(output))
