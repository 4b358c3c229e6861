"""GLUE's TSV files: what is a row, what is a label, what is left out, and what is refused."""

import logging
from pathlib import Path

import pytest

from electra.errors import UserError
from electra.finetuning.encoding import Examples
from electra.tasks.glue.tasks import DIAGNOSTICS, TASKS
from electra.tasks.glue.tsv import find_task_folders, read_file, read_task

MRPC_HEADER = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
QQP_HEADER = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
MNLI_HEADER = "index\tpairID\tsentence1\tsentence2\tlabel1\tgold_label\n"
RTE_HEADER = "index\tsentence1\tsentence2\tlabel\n"
STSB_HEADER = "index\tgenre\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
GOOD_RTE = "".join(f"{i}\tpremise {i}\thypothesis {i}\tentailment\n" for i in range(12))


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8"))  # bytes: line ends as they stand in the text
    return path


def read(folder: Path, task: str, text: str, split: str = "train") -> Examples:
    return read_file(write(folder / f"{split}.tsv", text), TASKS[task], split)


def refusal(folder: Path, task: str, text: str, split: str = "train") -> str:
    """The message of the UserError, which has to be one line that begins with the file or names it."""
    with pytest.raises(UserError) as error:
        read(folder, task, text, split)
    assert f"{split}.tsv" in str(error.value) and "\n" not in str(error.value)
    return str(error.value)


def test_quotes_and_exotic_separators_are_text_and_only_line_feeds_end_a_row(tmp_path: Path) -> None:
    text = 'sentence\tlabel\r\n"a 5" pipe\t1\r\nit\u2028is\x0bone\x85row\x0c\rhere \t0\r\n""\t1'
    assert read(tmp_path, "sst2", text) == Examples(
        ['"a 5" pipe', "it\u2028is\x0bone\x85row\x0c\rhere ", '""'], None, [1, 0, 1]
    )


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path: Path) -> None:
    assert read(tmp_path, "mrpc", f"\ufeff{MRPC_HEADER}1\t7\t8\ta b\tc d\n") == Examples(["a b"], ["c d"], [1])
    assert read(tmp_path, "cola", "\ufeffgj04\t1\t\tShe sails.\n").first == ["She sails."]


def test_cola_has_a_header_in_its_test_file_alone(tmp_path: Path) -> None:
    assert read(tmp_path, "cola", "gj04\t1\t\tShe sails.\nks08\t0\t*\tShe sail.\n") == Examples(
        ["She sails.", "She sail."], None, [1, 0]
    )
    assert read(tmp_path, "cola", "index\tsentence\n0\tHe ran.\n1\tHe run.\n", "test") == Examples(
        ["He ran.", "He run."]
    )


@pytest.mark.parametrize(
    ("task", "text", "expected"),
    [
        ("qqp", QQP_HEADER + "1\t2\t3\tq one\tq two\t0\n", Examples(["q one"], ["q two"], [0])),
        ("stsb", STSB_HEADER + "0\tnews\tMS\tMS\ta\tb\t3.800\n", Examples(["a"], ["b"], [3.8])),
        ("mnli", MNLI_HEADER + "0\t9e\tp\th\tneutral\tcontradiction\n", Examples(["p"], ["h"], [2])),
        ("qnli", "index\tquestion\tsentence\tlabel\n0\tq\ts\tnot_entailment\n", Examples(["q"], ["s"], [1])),
        (
            "rte",
            RTE_HEADER + "0\tp\th\tentailment\n1\tP\tH\tnot_entailment\n",
            Examples(["p", "P"], ["h", "H"], [0, 1]),
        ),
        ("wnli", RTE_HEADER + "0\tp\th\t1\n", Examples(["p"], ["h"], [1])),
        # Columns are found by name, in whatever order.
        ("rte", "label\tsentence2\tsentence1\nentailment\th\tp\n", Examples(["p"], ["h"], [0])),
    ],
)
def test_texts_and_labels_are_found_by_the_names_of_their_columns(
    task: str, text: str, expected: Examples, tmp_path: Path
) -> None:
    assert read(tmp_path, task, text) == expected


def test_labels_of_a_test_file_stay_secret_and_the_diagnostics_have_none(tmp_path: Path) -> None:
    assert read(tmp_path, "rte", RTE_HEADER + "0\tp\th\tnonsense\n", "test") == Examples(["p"], ["h"], None)
    write(tmp_path / "diagnostic.tsv", "index\tsentence1\tsentence2\tlabel\n0\tp\th\tentailment\n")
    assert read_task(tmp_path, DIAGNOSTICS, ["test"]) == {"test": Examples(["p"], ["h"], None)}


def test_broken_training_rows_are_left_out_and_counted_in_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good = "".join(f"0\t9e\tp{i}\th{i}\tneutral\tneutral\n" for i in range(18))
    broken = "0\t9e\tcut in\n0\t9e\tp\th\tneutral\t-\n0\t9e\t \t\tneutral\tneutral\n0\t9e\tp\th\tneutral\tneutral\tx\n"
    half = "0\t9e\tonly a premise\t\tneutral\tentailment\n"  # a pair with one empty side is a row like any other
    with caplog.at_level(logging.WARNING):
        examples = read(tmp_path, "mnli", MNLI_HEADER + broken + good + half)
    assert examples.first == [*(f"p{i}" for i in range(18)), "only a premise"]
    assert examples.second == [*(f"h{i}" for i in range(18)), ""]
    assert examples.labels == [1] * 18 + [0]
    (message,) = caplog.messages
    assert "train.tsv: 4 of 23 rows" in message and message.endswith("line 2")


def test_broken_test_rows_keep_their_places_with_an_empty_text(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [f"{i}\tp{i}\th{i}" for i in range(10)]
    rows[3], rows[7] = "3\tcut in", ""
    with caplog.at_level(logging.WARNING):
        examples = read(tmp_path, "rte", "\n".join(["index\tsentence1\tsentence2", *rows, "", ""]), "test")
    assert examples.first == [f"p{i}" if i not in (3, 7) else "" for i in range(10)]
    assert examples.second == [f"h{i}" if i not in (3, 7) else "" for i in range(10)]
    (message,) = caplog.messages
    assert "2 of 10 rows" in message and message.endswith("line 5")


def test_a_file_is_refused_when_more_than_a_fifth_of_it_is_broken(tmp_path: Path) -> None:
    assert len(read(tmp_path, "rte", RTE_HEADER + GOOD_RTE + "cut\n" * 3)) == 12
    message = refusal(tmp_path, "rte", RTE_HEADER + GOOD_RTE + "cut\n" * 4)
    assert "4 of 16 rows" in message and "line 14" in message


@pytest.mark.parametrize(
    ("task", "text", "words"),
    [
        ("rte", "", ["empty"]),
        ("rte", "\n\r\n\n", ["empty"]),
        ("cola", "", ["empty"]),
        ("rte", RTE_HEADER, ["header without rows"]),
        ("rte", "index\tpremise\tsentence2\tlabel\n0\tp\th\tentailment\n", ["sentence1", "index, premise"]),
        ("rte", GOOD_RTE, ["0, premise 0, hypothesis 0, entailment"]),
        ("rte", RTE_HEADER + GOOD_RTE + "12\tp\th\tneutral\n", ["line 14", "'neutral'", "entailment not_entailment"]),
        ("sst2", "sentence\tlabel\nfine\tpositive\n", ["line 2", "'positive'", "0 1"]),
        ("rte", RTE_HEADER + "0\tp\th\t-\n", ["line 2", "'-'"]),
        *(("stsb", STSB_HEADER + f"0\tg\ts\ts\ta\tb\t{score}\n", ["line 2", f"'{score}'", "0 to 5"])
          for score in ("5.1", "-0.1", "nan", "high")),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_the_task_is_refused(task: str, text: str, words: list[str], tmp_path: Path) -> None:
    message = refusal(tmp_path, task, text)
    assert all(word in message for word in words)


def test_scores_may_be_the_ends_of_their_range(tmp_path: Path) -> None:
    text = STSB_HEADER + "0\tg\ts\ts\ta\tb\t0\n1\tg\ts\ts\ta\tb\t5.000\n"
    assert read(tmp_path, "stsb", text).labels == [0.0, 5.0]


def test_text_in_another_encoding_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    path.write_bytes(b"sentence\tlabel\nfine\t1\ncaf\xe9\t1\n")
    with pytest.raises(UserError, match=r"train\.tsv line 3"):
        read_file(path, TASKS["sst2"], "train")


def test_what_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").mkdir()
    with pytest.raises(UserError, match=r"train\.tsv: Is a directory"):
        read_task(tmp_path, TASKS["rte"], ["train"])


def test_mnli_has_a_file_for_each_half_and_files_that_are_absent_are_left_out(tmp_path: Path) -> None:
    for name in ("train", "dev_matched", "dev_mismatched", "test_matched"):
        write(tmp_path / f"{name}.tsv", MNLI_HEADER + f"0\t9e\t{name}\th\tneutral\tneutral\n")
    found = read_task(tmp_path, TASKS["mnli"], tuple(TASKS["mnli"].rows))
    assert [(split, examples.first) for split, examples in found.items()] == [
        ("train", ["train"]),
        ("dev", ["dev_matched"]),
        ("dev_mismatched", ["dev_mismatched"]),
        ("test", ["test_matched"]),
    ]
    assert found["dev_mismatched"].labels == [1] and found["test"].labels is None


def test_folders_are_found_whatever_their_case_and_punctuation(tmp_path: Path) -> None:
    for name in ("sst2", "STS-B", "cola", "QQP", "diagnostic", "demo", "notes"):
        (tmp_path / name).mkdir()
    write(tmp_path / "RTE", "a file")
    found = {task: folder.name for task, folder in find_task_folders(tmp_path).items()}
    assert found == {"sst2": "sst2", "stsb": "STS-B", "cola": "cola", "qqp": "QQP", "ax": "diagnostic"}


def test_diagnostics_are_also_found_beside_mnli(tmp_path: Path) -> None:
    (tmp_path / "MNLI").mkdir()
    assert "ax" not in find_task_folders(tmp_path)
    write(tmp_path / "MNLI" / "diagnostic.tsv", "index\tsentence1\tsentence2\n0\tp\th\n")
    assert find_task_folders(tmp_path)["ax"] == tmp_path / "MNLI"


def test_a_place_without_tasks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--glue_dir .*absent: No such file or directory"):
        find_task_folders(tmp_path / "absent")
    with pytest.raises(UserError, match=r"--glue_dir .*train\.tsv: Not a directory"):
        find_task_folders(write(tmp_path / "train.tsv", "x"))
    with pytest.raises(UserError, match=r"CoLA, .*train\.tsv"):
        find_task_folders(tmp_path)
