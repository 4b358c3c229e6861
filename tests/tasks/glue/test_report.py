"""The report: what stands in its tables, whole and well-formed HTML, the same bytes each time, and no torch."""

import functools
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from electra.errors import UserError
from electra.report import evaluation as report
from electra.tasks.glue.report import REPORTING
from electra.tasks.glue.tasks import TASKS
from tests.tasks.glue.runs import all_tasks, result, run_folder

ROOT = Path(__file__).parents[3]
VOID = {"meta", "circle", "line", "path"}


class Page(HTMLParser):
    """Tables as lists of rows of texts, the texts of SVG, and whether every element was closed in its turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tables: list[list[list[str]]] = []
        self.headings: list[str] = []
        self.svg: list[tuple[str, dict[str, str | None]]] = []
        self.svg_text = ""
        self.attributes: set[str] = set()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes |= {name for name, _ in attrs}
        if "svg" in self.open or tag == "svg":
            self.svg.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        if tag == "tr" or (tag == "thead"):
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")
        if tag in ("h1", "h2", "h3"):
            self.headings.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID
        self.svg.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1] += data.strip()
        if self.open and self.open[-1] in ("h1", "h2", "h3"):
            self.headings[-1] += data
        if "svg" in self.open:
            self.svg_text += data


def section(markdown: str, title: str) -> str:
    """From a heading to the next of level two."""
    return markdown.split(f"\n## {title}\n")[1].split("\n## ")[0]


def table(markdown: str) -> list[dict[str, str]]:
    """Rows of the first table of a text, by column."""
    lines = markdown[markdown.index("|") :].split("\n\n")[0].splitlines()
    header, _, *rows = ([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines)
    return [dict(zip(header, row, strict=True)) for row in rows]


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """`first` has every task, and three seeds of CoLA of which two collapsed; `second`, from scratch, lacks QNLI."""
    first = [
        *all_tasks(without=("cola",)),
        result("cola", 42, {"mcc": 0.0, "accuracy": 0.69}, collapsed=True),
        result("cola", 43, {"mcc": 0.0, "accuracy": 0.69}, collapsed=True),
        result("cola", 44, {"mcc": 0.3, "accuracy": 0.75}),
    ]
    second = all_tasks(without=("qnli", "wnli"), model="small", start="scratch")
    return [run_folder(tmp_path / "first", first), run_folder(tmp_path / "second", second)]


write_report = functools.partial(report.write_report, REPORTING)
terminal_table = functools.partial(report.terminal_table, REPORTING)


def write(folders: list[Path]) -> tuple[str, str, dict]:
    paths = write_report(folders, folders[0] / "report")
    assert [path.name for path in paths] == ["report.md", "report.html", "report.json"]
    markdown, page, values = (path.read_text(encoding="utf-8") for path in paths)
    return markdown, page, json.loads(values)


def test_one_row_a_folder_with_every_task_and_both_averages(folders: list[Path]) -> None:
    markdown, _, _ = write(folders)
    first, second = table(section(markdown, "Development sets"))
    assert first == {
        "Run": "first",
        "Model": "output/small",
        "Start": "pretrained",
        "Params": "13.5 M",
        "Seeds": "1 to 3",
        "CoLA MCC": "0.0 ± 17.3 (2 of 3 collapsed)",
        "SST-2": "52.0",
        "MRPC": "53.0",
        "STS-B Spearman": "54.0",
        "QQP": "55.0",
        "MNLI m": "56.0",
        "MNLI mm": "60.0",
        "QNLI": "57.0",
        "RTE": "58.0",
        "WNLI": "59.0",
        "AVG": "48.4",  # (0 + 52 + 53 + 54 + 55 + 58 + 57 + 58) / 8 = 48.375
        "GLUE": "49.6",
    }
    assert (second["Run"], second["Model"], second["Start"], second["Seeds"]) == ("second", "small", "scratch", "1")
    assert (second["CoLA MCC"], second["QNLI"], second["AVG"], second["GLUE"]) == ("51.0", "", "", "")
    assert "- second: no AVG, which needs QNLI." in markdown
    assert "- second: no GLUE, which needs QNLI, WNLI." in markdown
    assert "first: no" not in markdown


def test_tasks_that_no_run_has_are_no_columns(tmp_path: Path) -> None:
    markdown, page, _ = write([run_folder(tmp_path / "few", all_tasks(without=tuple(set(TASKS) - {"rte", "stsb"})))])
    (row,) = table(section(markdown, "Development sets"))
    assert list(row) == ["Run", "Model", "Start", "Params", "Seeds", "STS-B Spearman", "RTE", "AVG", "GLUE"]
    beside = table(section(markdown, "Beside published results: development sets"))
    assert list(beside[0]) == ["Model", "STS-B", "RTE", "AVG", "Protocol", "Source"]
    assert "CoLA" in table(section(markdown, "Published results: test sets"))[0]
    assert list(row) in [cells for rows in Page(page).tables for cells in rows]


def test_details_have_every_metric_and_every_seed(folders: list[Path]) -> None:
    markdown, _, _ = write(folders)
    headline, accuracy, *_ = table(markdown.split("### CoLA\n")[1])
    assert headline == {
        "Run": "first",
        "Metric": "MCC (headline)",
        "Median": "0.00",
        "Mean": "10.00",
        "Best": "30.00",
        "Std": "17.32",
        "By seed": "42: 0.00 (collapsed), 43: 0.00 (collapsed), 44: 30.00",
        "Epochs": "3",
        "Start": "pretrained",
        "Learning rate": "0.0003",
    }
    assert (accuracy["Metric"], accuracy["Median"], accuracy["Best"]) == ("accuracy", "69.00", "75.00")
    mnli = [row["Metric"] for row in table(markdown.split("### MNLI\n")[1]) if row["Run"] == "first"]
    assert mnli == ["mean of both (headline)", "accuracy, matched", "accuracy, mismatched"]
    assert [row["Metric"] for row in table(markdown.split("### STS-B\n")[1])][:2] == ["Spearman (headline)", "Pearson"]


def test_dev_and_test_are_never_in_one_table(folders: list[Path]) -> None:
    markdown, _, _ = write(folders)
    dev = {row["Model"]: row for row in table(section(markdown, "Beside published results: development sets"))}
    test = {row["Model"]: row for row in table(section(markdown, "Published results: test sets"))}
    assert dev["ELECTRA-Small++"]["RTE"] == "66.7" and test["ELECTRA-Small++"]["RTE"] == "63.6"
    assert dev["first (this report)"]["MNLI"] == "58.0" and dev["first (this report)"]["MNLI is"] == "mean"
    assert dev["first (this report)"]["CoLA"] == "0.0 (2 of 3 collapsed)"
    assert not any("this report" in model for model in test)
    assert "GPT" in test and dev["GPT"]["CoLA"] == ""
    assert "79.2; the mean of its own row is 78.79" in section(markdown, "Notes on published rows")


def test_the_demonstration_has_a_table_of_its_own(tmp_path: Path) -> None:
    runs = [*all_tasks("cola"), result("demo", 1, {"mcc": 0.123, "accuracy": 0.6})]
    markdown, page, _ = write([run_folder(tmp_path / "run", runs)])
    assert table(section(markdown, "Demonstration"))[0]["Median"] == "12.30"
    for title in ("Development sets", "By task", "Beside published results: development sets"):
        assert "12.3" not in section(markdown, title)
    alone, _, _ = write([run_folder(tmp_path / "alone", runs[1:])])
    assert "ELECTRA-Small" not in alone and "AVG |" not in alone
    assert "OWT, lmtuners" not in page.split('id="plot-demo-title"')[1].split("</svg>")[0]


def test_other_data_than_the_official_are_named(tmp_path: Path) -> None:
    runs = [*all_tasks("cola"), result("rte", 1, {"accuracy": 0.5}, rows={"train": 100, "dev": 277})]
    markdown, _, values = write([run_folder(tmp_path / "run", runs)])
    assert "run: the number of rows differs from the official data: RTE (train 100, officially 2490)." in markdown
    ours = table(section(markdown, "Beside published results: development sets"))[0]
    assert ours["Protocol"] == "median of 1; other data than official: RTE"
    assert values["runs"][0]["tasks"]["rte"]["rows_not_official"] == {"train": [100]}
    official, _, _ = write([run_folder(tmp_path / "official", all_tasks())])
    assert "officially" not in official and "other data" not in official


def test_mnli_with_one_set_shows_it_alone(tmp_path: Path) -> None:
    runs = [*all_tasks(without=("mnli",)), result("mnli", 1, {"accuracy_matched": 0.75})]
    markdown, page, _ = write([run_folder(tmp_path / "run", runs)])
    (row,) = table(section(markdown, "Development sets"))
    assert (row["MNLI m"], row["MNLI mm"], row["AVG"]) == ("75.0", "", "")
    picture = page.split('id="plot-mnli-title"')[1].split("</svg>")[0]
    assert "MNLI, acc m<" in picture and "75.0" in picture
    assert "ELECTRA-Small-OWT" in picture and "lmtuners" not in picture  # lmtuners reports the mean of both


def test_the_page_is_well_formed_and_says_what_the_markdown_says(folders: list[Path]) -> None:
    markdown, text, _ = write(folders)
    page = Page(text)
    assert page.open == []
    rows = [row for rows in page.tables for row in rows if row]
    assert next(row[:6] for row in rows if row[0] == "first") == [
        "first",
        "output/small",
        "pretrained",
        "13.5 M",
        "1 to 3",
        "0.0 ± 17.3 (2 of 3 collapsed)",
    ]
    assert len(rows) == sum(line.startswith("|") and "---" not in line for line in markdown.splitlines())
    assert page.headings == [line.lstrip("# ") for line in markdown.splitlines() if line.startswith("#")]
    assert text.count('<div class="scroll"') == len(page.tables)


def test_the_picture_shows_each_seed_and_the_median_where_they_are(folders: list[Path]) -> None:
    _, text, _ = write(folders)
    cola = text.split('id="plot-cola-title"')[1].split("</svg>")[0]
    assert (cola.count('class="collapsed"'), cola.count('class="seed"')) == (2, 2)
    assert cola.count('class="median"') == 2 and cola.count('class="published"') == 6
    assert "first: median 0.0; by seed 0.0 (collapsed), 0.0 (collapsed), 30.0." in cola
    page = Page(text)
    drawings = [attributes for tag, attributes in page.svg if tag == "svg"]
    assert len(drawings) == 9
    for attributes in drawings:
        title, description = (attributes["aria-labelledby"] or "").split()
        assert text.count(f'<title id="{title}">') == text.count(f'<desc id="{description}">') == 1


def test_names_that_users_type_are_escaped(tmp_path: Path) -> None:
    name = '<b>&"a"|`_*\'\nb'
    markdown, text, values = write([run_folder(tmp_path / "x<i>y|z", all_tasks(model=name))])
    assert "<b>" not in text and "<i>" not in text and "<b>" not in markdown and "<i>" not in markdown
    page = Page(text)
    assert page.open == []
    assert page.tables[0][-1][:2] == ["x<i>y|z", name]
    (row,) = table(section(markdown, "Development sets"))
    assert row["Model"] == '&lt;b&gt;&amp;"a"\\|\\`\\_\\*\' b'
    assert values["runs"][0]["model"] == name


def test_the_json_holds_the_same_numbers(folders: list[Path]) -> None:
    _, _, values = write(folders)
    cola = values["runs"][0]["tasks"]["cola"]
    assert cola["headline"] == {
        "median": 0.0,
        "mean": 10.0,
        "best": 30.0,
        "std": 17.320508,
        "undefined": 0,
        "values": {"42": 0.0, "43": 0.0, "44": 30.0},
    }
    assert (cola["runs"], cola["collapsed_seeds"]) == (3, [42, 43])
    assert values["runs"][0]["averages"]["AVG"] == {"value": 48.375, "missing": []}
    assert values["runs"][1]["averages"]["GLUE"] == {"value": None, "missing": ["qnli", "wnli"]}
    assert next(row for row in values["published"] if row["printed_average"] == 79.2)["average"] == 78.7875


def test_the_terminal_has_a_row_a_score_and_a_column_a_run(folders: list[Path]) -> None:
    lines = terminal_table(folders).splitlines()
    assert lines[0].split() == ["percent,", "median", "±", "std", "first", "second"]
    assert re.sub(" +", " ", lines[2]) == "CoLA MCC 0.0 ± 17.3 (2 of 3 collapsed) 51.0"
    scores = ["CoLA MCC", "SST-2", "MRPC", "STS-B Spearman", "QQP", "MNLI m", "MNLI mm", "QNLI", "RTE", "WNLI"]
    assert [line.split("  ")[0] for line in lines[1:]] == ["seeds", *scores, "AVG", "GLUE"]
    assert re.sub(" +", " ", lines[-2]) == "AVG 48.4 needs QNLI"
    assert re.sub(" +", " ", lines[-1]) == "GLUE 49.6 needs QNLI, WNLI"


def test_the_terminal_leaves_out_what_no_run_has(tmp_path: Path) -> None:
    lines = terminal_table([run_folder(tmp_path / "run", all_tasks("rte"))]).splitlines()
    assert [line.split("  ")[0] for line in lines[1:]] == ["seeds", "RTE", "AVG", "GLUE"]
    assert lines[-1].endswith("needs 8 more tasks")


def test_the_same_results_give_the_same_bytes_in_any_order_of_lines(folders: list[Path], tmp_path: Path) -> None:
    before = write(folders)
    results = folders[0] / "results.jsonl"
    results.write_text("".join(reversed(results.read_text().splitlines(keepends=True))))
    assert write(folders) == before


def test_a_folder_named_twice_is_one_row_and_like_names_are_told_apart(tmp_path: Path) -> None:
    one = run_folder(tmp_path / "a" / "glue", all_tasks("rte"))
    other = run_folder(tmp_path / "b" / "glue", all_tasks("rte"))
    last = run_folder(tmp_path / "c", all_tasks("rte"))
    markdown, _, values = write([one, other, one / ".." / "glue", last])
    assert [run["name"] for run in values["runs"]] == [str(one), str(other), "c"]
    assert len(table(section(markdown, "Development sets"))) == 3


@pytest.mark.parametrize(
    ("name", "message"),
    [("nowhere", "there is no folder"), ("nothing", r"has no results\.jsonl"), ("empty", "is empty: no run")],
)
def test_what_cannot_be_reported_is_said_in_one_line(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "nothing").mkdir()
    run_folder(tmp_path / "empty", [])
    (tmp_path / "empty" / "results.jsonl").touch()
    with pytest.raises(UserError, match=message) as error:
        write_report([tmp_path / name], tmp_path / "out")
    assert name in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_an_output_that_cannot_be_written_is_said(folders: list[Path], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"cannot write the report to .*file"):
        write_report(folders, tmp_path / "file")


def test_the_command_writes_into_the_first_run_and_never_imports_torch(folders: list[Path]) -> None:
    program = (
        "import sys; from electra.report.__main__ import main; main(sys.argv[1:]); "
        "print('IMPORTED', sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, folders)], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert "IMPORTED []" in done.stdout
    assert "needs QNLI" in done.stdout and str(folders[0] / "report.html") in done.stdout
    assert (folders[0] / "report.json").is_file() and not list(folders[0].glob(".report*"))
