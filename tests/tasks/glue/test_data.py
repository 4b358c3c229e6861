"""GLUE's rows: what is a row and a label of a TSV file, what is refused, what the Hub gives."""

import datasets
from pytest import raises

from electra.core.errors import UserError
from electra.finetuning.data import Examples
from electra.tasks.glue.data import load_task, read_tsv
from electra.tasks.glue.task import read_glue_row
from electra.tasks.glue.tasks import DIAGNOSTICS, KNOWN_TASKS
from tests.helpers import parametrize

COLA = "gj04\t1\t\tShe sails.\n"
MNLI = "index\tpairID\tsentence1\tsentence2\tlabel1\tgold_label\n"
RTE = "index\tsentence1\tsentence2\tlabel\n"
TWO_OF_RTE = RTE + "0\tp\th\tentailment\n1\tP\tH\tnot_entailment\n"
STSB = "index\tgenre\tsentence1\tsentence2\tscore\n"
TWELVE_OF_RTE = RTE + "".join(f"{row}\tpremise {row}\thypothesis {row}\tentailment\n" for row in range(12))


def write(folder, **files):
    """Write files named as `RTE_train` for RTE/train.tsv; return their folder."""
    for name, text in files.items():
        title, _, split = name.partition("_")
        path = folder / title / f"{split}.tsv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8"))  # bytes: line ends as they stand in the text
    return str(folder)


def read(folder, task, text, split="train"):
    """Return what is read from a file of a task with this text or these bytes."""
    path = folder / f"{split}.tsv"
    path.write_bytes(text.encode("utf-8") if isinstance(text, str) else text)
    return read_tsv(path, KNOWN_TASKS[task], split)


@parametrize(
    ("task", "text", "expected"),
    [
        ("cola", COLA + "ks08\t0\t*\tShe sail.\n", Examples(["She sails.", "She sail."], None, [1, 0])),
        # Quotes and exotic separators are text; only line feeds end a row.
        ("sst2", 'sentence\tlabel\r\n"a 5" pipe\t1\r\nit\u2028is\x0bone\x85row\x0c\rhere \t0\r\n""\t1',
         Examples(['"a 5" pipe', "it\u2028is\x0bone\x85row\x0c\rhere ", '""'], None, [1, 0, 1])),
        ("mrpc", "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\ta b\tc d\n",
         Examples(["a b"], ["c d"], [1])),
        ("stsb", STSB + "0\tnews\ta\tb\t3.800\n1\tnews\ta\tb\t0\n2\tnews\ta\tb\t5.000\n",
         Examples(["a"] * 3, ["b"] * 3, [3.8, 0.0, 5.0])),
        ("qqp", "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t2\t3\tq one\tq two\t0\n",
         Examples(["q one"], ["q two"], [0])),
        ("mnli", MNLI + "0\t9e\tp\th\tneutral\tcontradiction\n", Examples(["p"], ["h"], [2])),
        ("qnli", "index\tquestion\tsentence\tlabel\n0\tq\ts\tnot_entailment\n", Examples(["q"], ["s"], [1])),
        ("rte", "label\tsentence2\tsentence1\nentailment\th\tp\n", Examples(["p"], ["h"], [0])),  # found by name
        ("wnli", RTE + "0\tp\th\t1\n", Examples(["p"], ["h"], [1])),
    ],
)  # fmt: skip
def test_texts_and_labels_are_found_by_their_columns(task, text, expected, tmp_path):
    assert read(tmp_path, task, text) == expected


def test_each_class_of_a_task_has_a_name_and_is_written():
    for task in (*KNOWN_TASKS.values(), DIAGNOSTICS):
        classes = {"stsb": 0, "mnli": 3, "ax": 3}.get(task.name, 2)
        assert len(task.labels) == len({*task.labels}) == len(task.written_labels) == classes


def test_qqps_three_incomplete_rows_are_left_out_as_on_the_hub(tmp_path):
    text = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t2\t3\tcut in\n1\t2\t3\tone\ttwo\t0\n"
    assert read(tmp_path, "qqp", text) == Examples(["one"], ["two"], [0])
    without_second = "id\tquestion1\tquestion2\n0\tone\t\n1\tone\ttwo\n"  # a submission needs all rows
    assert read(tmp_path, "qqp", without_second, "test").second == ["", "two"]


def test_labels_of_test_files_are_not_read(tmp_path):
    assert read(tmp_path, "rte", RTE + "0\tp\th\tnonsense\n", "test") == Examples(["p"], ["h"], None)
    assert read(tmp_path, "cola", "index\tsentence\n0\tHe ran.\n\n", "test") == Examples(["He ran."])


@parametrize(
    ("task", "text", "word"),
    [
        ("rte", "", "no rows"),
        ("rte", RTE, "no rows"),
        ("rte", "index\tpremise\tsentence2\tlabel\n0\tp\th\tentailment\n", "sentence1"),
        ("rte", TWELVE_OF_RTE + "12\tp\th\tneutral\n", "'neutral'"),
        ("sst2", "sentence\tlabel\nfine\tpositive\n", "'positive'"),
        ("cola", "gj04\t2\t\tShe sails.\n", "'2'"),
        ("stsb", STSB + "0\tg\ta\tb\t5.1\n", r"'5\.1'"),
        ("stsb", STSB + "0\tg\ta\tb\thigh\n", "'high'"),
        ("sst2", b"sentence\tlabel\nfine\t1\ncaf\xe9\t1\n", "utf-8"),
        ("rte", TWELVE_OF_RTE + "12\tcut in\n", "row of 2 columns"),
        ("rte", RTE + "12\tp\th\tentailment\tmore\n", "row of 5 columns"),
    ],
)
def test_a_file_that_cannot_be_the_task_is_refused(task, text, word, tmp_path):
    with raises(UserError, match=rf"train\.tsv.*{word}"):
        read(tmp_path, task, text)


def test_a_glue_dir_that_does_not_exist_is_refused(tmp_path):
    with raises(UserError, match=r"--glue_dir .*nowhere"):
        load_task(KNOWN_TASKS["cola"], str(tmp_path / "nowhere"), ["train"])


def test_files_that_are_not_there_are_left_out_and_named(tmp_path, caplog):
    folder = write(tmp_path, RTE_train=TWO_OF_RTE, RTE_dev=TWO_OF_RTE, CoLA_train=COLA)
    rows = Examples(["p", "P"], ["h", "H"], [0, 1])
    assert load_task(KNOWN_TASKS["rte"], folder, ["train", "dev"]) == {"train": rows, "dev": rows}
    caplog.clear()
    assert set(load_task(KNOWN_TASKS["cola"], folder, ["train", "dev"])) == {"train"}
    assert f"CoLA: {tmp_path} has no file for dev" in caplog.text


def test_mnli_has_two_halves_and_the_diagnostics_beside_them(tmp_path):
    row = MNLI + "0\t9e\t{}\th\tneutral\tneutral\n"
    names = ("train", "dev_matched", "dev_mismatched", "test_matched", "test_mismatched")
    folder = write(
        tmp_path, AX_diagnostic=row.format("diagnostic"), **{f"MNLI_{name}": row.format(name) for name in names}
    )
    splits = load_task(KNOWN_TASKS["mnli"], folder, list(KNOWN_TASKS["mnli"].rows))
    assert [(split, examples.first) for split, examples in splits.items()] == [
        ("train", ["train"]), ("dev", ["dev_matched"]), ("dev_mismatched", ["dev_mismatched"]),
        ("test", ["test_matched"]), ("test_mismatched", ["test_mismatched"]),
    ]  # fmt: skip
    assert load_task(DIAGNOSTICS, folder, ["ax"]) == {"ax": Examples(["diagnostic"], ["h"], None)}


def test_the_hub_s_splits_get_our_names(monkeypatch):
    names = ("train", "validation_matched", "validation_mismatched", "test_matched", "test_mismatched")
    tables = {
        "mnli": {name: {"premise": [name], "hypothesis": ["h"], "label": [2]} for name in names},
        "ax": {"test": {"premise": ["p"], "hypothesis": ["h"], "label": [-1]}},
    }
    monkeypatch.setattr(datasets, "load_dataset", lambda hub_id, name: tables[name])
    mnli = load_task(KNOWN_TASKS["mnli"], None, tuple(KNOWN_TASKS["mnli"].rows))
    assert {split: examples.first for split, examples in mnli.items()} == {
        "train": ["train"], "dev": ["validation_matched"], "dev_mismatched": ["validation_mismatched"],
        "test": ["test_matched"], "test_mismatched": ["test_mismatched"],
    }  # fmt: skip
    assert [examples.labels for examples in mnli.values()] == [[2], [2], [2], None, None]
    assert load_task(DIAGNOSTICS, None, ["ax"]) == {"ax": Examples(["p"], ["h"], None)}


def test_without_the_hub_the_way_out_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)  # nobody's earlier download
    with raises(UserError, match=r"nyu-mll/glue.*--glue_dir"):
        load_task(KNOWN_TASKS["rte"], None, ["train"])


def test_a_saved_model_answers_rows_with_the_columns_of_any_task():
    """As the Hub and the TSV files name them; a pair whose second text is not read gets another answer."""
    for task in (*KNOWN_TASKS.values(), DIAGNOSTICS):
        for names in filter(None, (task.text_columns, task.tsv_columns)):
            row = read_glue_row(dict(zip(names, ("one", "other"), strict=False)), "here")
            assert (row.text, row.pair) == ("one", "other" if len(names) == 2 else None)
