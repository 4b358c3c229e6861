"""From names of tasks to their rows: order, what may be absent, and that folders and the Hub give the same."""

import logging
from pathlib import Path
from typing import Any

import datasets
import pytest

from electra.errors import UserError
from electra.finetuning.encoding import Examples
from electra.tasks.glue.data import examples_from_hub, load_diagnostics, load_tasks
from electra.tasks.glue.tasks import DIAGNOSTICS, TASKS

RTE = "index\tsentence1\tsentence2\tlabel\n0\tp\th\tentailment\n1\tP\tH\tnot_entailment\n"
COLA = "gj04\t1\t\tShe sails.\n"
MNLI = "index\tsentence1\tsentence2\tgold_label\n0\tp\th\tneutral\n"
NLI_NAMES = ["entailment", "neutral", "contradiction"]


def write(folder: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return str(folder)


def hub_table(labels: datasets.ClassLabel | datasets.Value, **columns: list[Any]) -> datasets.Dataset:
    texts = {name: datasets.Value("string") for name in columns if name != "label"}
    return datasets.Dataset.from_dict(columns, features=datasets.Features({**texts, "label": labels}))


def test_tasks_come_in_the_order_named_and_each_once(tmp_path: Path) -> None:
    files = {"RTE/train.tsv": RTE, "RTE/dev.tsv": RTE, "CoLA/train.tsv": COLA, "CoLA/dev.tsv": COLA}
    loaded = load_tasks(["rte", "CoLA", "RTE"], write(tmp_path, files), with_test=False)
    assert list(loaded) == ["rte", "cola"]
    assert loaded["rte"].task is TASKS["rte"]
    assert loaded["rte"].splits["dev"] == Examples(["p", "P"], ["h", "H"], [0, 1])
    assert loaded["cola"].splits == {
        "train": Examples(["She sails."], None, [1]),
        "dev": Examples(["She sails."], None, [1]),
    }


def test_test_files_are_read_only_if_asked_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = write(tmp_path, {"rte/train.tsv": RTE, "rte/dev.tsv": RTE, "rte/test.tsv": RTE})
    assert list(load_tasks(["rte"], folder, with_test=False)["rte"].splits) == ["train", "dev"]
    assert load_tasks(["rte"], folder, with_test=True)["rte"].splits["test"] == Examples(["p", "P"], ["h", "H"], None)
    (tmp_path / "rte" / "test.tsv").unlink()
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert list(load_tasks(["rte"], folder, with_test=True)["rte"].splits) == ["train", "dev"]
    assert any("RTE" in message and "test.tsv" in message for message in caplog.messages)


def test_what_is_absent_is_named_and_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = write(tmp_path, {"rte/train.tsv": RTE, "rte/dev.tsv": RTE, "CoLA/train.tsv": COLA, "MRPC/notes": ""})
    with caplog.at_level(logging.WARNING):
        assert list(load_tasks(["cola", "rte", "wnli", "mrpc"], folder, with_test=False)) == ["rte"]
    skipped = [message for message in caplog.messages if "skipped" in message]
    assert [message.split()[0] for message in skipped] == ["CoLA", "WNLI", "MRPC"]
    assert "dev.tsv" in skipped[0] and "train.tsv" not in skipped[0]
    assert "no folder WNLI" in skipped[1]
    assert "train.tsv" in skipped[2] and "dev.tsv" in skipped[2]
    with pytest.raises(UserError, match=r"dev\.tsv; folder WNLI"):
        load_tasks(["cola", "wnli"], folder, with_test=False)


def test_mnli_goes_on_without_its_mismatched_half(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = write(tmp_path, {"MNLI/train.tsv": MNLI, "MNLI/dev_matched.tsv": MNLI})
    with caplog.at_level(logging.WARNING):
        assert list(load_tasks(["mnli"], folder, with_test=False)["mnli"].splits) == ["train", "dev"]
    assert any("dev_mismatched.tsv" in message for message in caplog.messages)
    write(tmp_path, {"MNLI/dev_mismatched.tsv": MNLI})
    assert list(load_tasks(["mnli"], folder, with_test=False)["mnli"].splits) == ["train", "dev", "dev_mismatched"]


def test_rows_are_compared_with_the_official_number(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    dev = COLA * 1043
    folder = write(tmp_path, {"CoLA/train.tsv": COLA * 1234, "CoLA/dev.tsv": dev})
    with caplog.at_level(logging.WARNING):
        load_tasks(["cola"], folder, with_test=False)
    assert caplog.messages == ["CoLA train: 1,234 rows, officially 8,551"]


def test_the_diagnostics_may_be_absent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = write(tmp_path, {"MNLI/train.tsv": MNLI})
    assert load_diagnostics(folder) is None
    write(tmp_path, {"AX/diagnostic.tsv": "index\tsentence1\tsentence2\n0\tp\th\n"})
    with caplog.at_level(logging.WARNING):
        assert load_diagnostics(folder) == Examples(["p"], ["h"], None)
    assert caplog.messages == ["AX test: 1 rows, officially 1,104"]


def test_a_glue_dir_that_is_not_there_is_refused_unless_only_the_demo_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match="No such file"):
        load_tasks(["demo", "rte"], str(tmp_path / "absent"), with_test=False)
    demo = {"train": Examples(["a"]), "dev": Examples(["b"])}
    monkeypatch.setattr("electra.tasks.glue.data.demo_data", lambda: demo)
    assert load_tasks(["demo"], str(tmp_path / "absent"), with_test=True)["demo"].splits == demo


def test_without_the_hub_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)  # nobody's earlier download
    for load in (lambda: load_tasks(["rte"], None, with_test=False), lambda: load_diagnostics(None)):
        with pytest.raises(UserError, match=r"nyu-mll/glue.*--glue_dir"):
            load()


def test_the_hubs_splits_get_our_names_and_test_labels_stay_secret() -> None:
    labels = datasets.ClassLabel(names=NLI_NAMES)
    tables = datasets.DatasetDict(
        {
            name: hub_table(labels, premise=[name], hypothesis=["h"], label=[-1 if "test" in name else 2], idx=["0"])
            for name in ("train", "validation_matched", "validation_mismatched", "test_matched", "test_mismatched")
        }
    )
    assert examples_from_hub(tables, TASKS["mnli"], tuple(TASKS["mnli"].rows)) == {
        "train": Examples(["train"], ["h"], [2]),
        "dev": Examples(["validation_matched"], ["h"], [2]),
        "dev_mismatched": Examples(["validation_mismatched"], ["h"], [2]),
        "test": Examples(["test_matched"], ["h"], None),
        "test_mismatched": Examples(["test_mismatched"], ["h"], None),
    }


def test_one_text_two_texts_and_scores_of_the_hub() -> None:
    two = datasets.ClassLabel(names=["a", "b"])
    cola = {
        "train": hub_table(two, sentence=["x", "y"], label=[1, 0]),
        "validation": hub_table(two, sentence=["z"], label=[1]),
    }
    assert examples_from_hub(cola, TASKS["cola"], ["train", "dev"]) == {
        "train": Examples(["x", "y"], None, [1, 0]),
        "dev": Examples(["z"], None, [1]),
    }
    score = datasets.Value("float64")
    stsb = {"train": hub_table(score, sentence1=["a", "b"], sentence2=["c", "d"], label=[0.0, 5.0])}
    assert examples_from_hub(stsb, TASKS["stsb"], ["train"])["train"] == Examples(["a", "b"], ["c", "d"], [0.0, 5.0])
    # The Hub's MRPC carries the labels of its test set.
    mrpc = {"test": hub_table(two, sentence1=["a"], sentence2=["b"], label=[1])}
    assert examples_from_hub(mrpc, TASKS["mrpc"], ["test"])["test"].labels is None
    ax = {"test": hub_table(datasets.Value("int64"), premise=["p"], hypothesis=["h"], label=[-1])}
    assert examples_from_hub(ax, DIAGNOSTICS, ["test"])["test"] == Examples(["p"], ["h"], None)


@pytest.mark.parametrize(
    ("task", "labels", "words"),
    [
        ("rte", [0, -1], "row 1: label -1, expected 0 to 1"),
        ("rte", [2], "row 0: label 2, expected 0 to 1"),
        ("stsb", [5.5], "row 0: label 5.5, expected 0 to 5"),
        ("stsb", [float("nan")], "row 0: label nan, expected 0 to 5"),
    ],
)
def test_unknown_labels_of_the_hub_are_refused(task: str, labels: list[Any], words: str) -> None:
    texts = {name: ["x"] * len(labels) for name in TASKS[task].text_columns}
    kind = datasets.Value("float64" if task == "stsb" else "int64")
    with pytest.raises(UserError, match=f"nyu-mll/glue {task}, split validation, {words}"):
        examples_from_hub({"validation": hub_table(kind, label=labels, **texts)}, TASKS[task], ["dev"])


def test_a_hub_table_of_another_form_is_refused() -> None:
    table = hub_table(datasets.Value("int64"), sentence1=["x"], label=[0])
    with pytest.raises(UserError, match=r"rte, split train: .*sentence2"):
        examples_from_hub({"train": table}, TASKS["rte"], ["train"])
    with pytest.raises(UserError, match="rte, split validation"):
        examples_from_hub({"train": table}, TASKS["rte"], ["dev"])
