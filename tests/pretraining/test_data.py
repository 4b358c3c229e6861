"""The data of a run: which seed decides what, and what is held out."""

import io
import json
from contextlib import redirect_stderr

import numpy as np
import pytest
from pytest import raises

from electra.core.errors import UserError
from electra.data.options import held_out_texts
from electra.data.policies import POLICIES
from electra.pretraining.data import load_data
from electra.pretraining.options import parse_pretraining_arguments
from electra.pretraining.run import main
from electra.report.metrics import make_panels
from electra.report.runs import read_run
from tests.conftest import refused
from tests.data.rows import all_ids
from tests.helpers import files_up_to, parametrize, read_json
from tests.pretraining.runs import flags, history, make, write_corpus

pytestmark = pytest.mark.slow


def load(folder, **options):
    """The data of a tiny run that begins."""
    return load_data(parse_pretraining_arguments(flags(folder, **options)), None)


def segments(trainer, name):
    """Ids and mask seeds of the first four segments of one of the trainer's data sets."""
    return [([*map(int, row.first)], row.mask_seed) for row in getattr(trainer, name).__getitems__(range(4))]


def test_each_seed_decides_its_part_of_a_run(folder, glue_tokenizer):
    glue_tokenizer.save_pretrained(folder / "tok")  # one that is trained here depends on the seed of the data
    files = {"validation_file": write_corpus(folder / "held_out.txt", seed=1), "tokenizer_path": folder / "tok"}
    usual, of_seed, of_eval_seed = (
        make(folder, **files, **seeds, experiment_name=str(number))
        for number, seeds in enumerate(({}, {"seed": 7}, {"eval_seed": 7}))
    )
    weights = [next(trainer.model.parameters()).sum().item() for trainer in (usual, of_seed, of_eval_seed)]
    assert weights[0] == weights[2] != weights[1]
    for name, decides, other in (
        ("train_dataset", of_seed, of_eval_seed),
        ("eval_dataset", of_eval_seed, of_seed),
    ):
        before = segments(usual, name)
        assert segments(other, name) == before
        for (ids, mask_seed), (ids_before, mask_seed_before) in zip(segments(decides, name), before, strict=True):
            assert ids != ids_before and mask_seed != mask_seed_before


def test_the_seed_of_the_data_decides_what_is_held_out(folder, glue_tokenizer):
    glue_tokenizer.save_pretrained(folder / "tok")
    fixed = {"tokenizer_path": folder / "tok", "vocab_size": None}
    usual, of_seed, of_eval_seed = (load(folder, **fixed, **seeds) for seeds in ({}, {"seed": 7}, {"eval_seed": 7}))
    assert usual.text_provenance == of_seed.text_provenance
    assert usual.cache.content_hashes.tolist() == of_eval_seed.cache.content_hashes.tolist()
    assert usual.text_provenance["training_text"] != of_eval_seed.text_provenance["training_text"]
    assert (len(usual.training_documents), len(usual.held_out_lengths)) == (24, 6)
    half = [load(folder, dataset_sampling=0.5, eval_seed=seed).cache.content_hashes.tolist() for seed in (42, 42, 7)]
    assert half[0] == half[1] != half[2]


def test_documents_that_are_held_out_are_not_trained_on(folder):
    text = (folder / "corpus.txt").read_text().split("\n\n")
    (folder / "held_out.txt").write_text("\n\n".join([text[3], "another text", text[5]]))
    data = load(folder, validation_file=folder / "held_out.txt")
    assert [*data.training_documents] == [document for document in range(30) if document not in (3, 5)]
    assert len(data.held_out_lengths) == 3
    assert (len(data.cache), data.text_provenance["training_documents"]) == (30, 28)
    assert "--validation_file" in refused(lambda: load(folder, validation_file=folder / "corpus.txt"))


def test_documents_that_are_left_out_are_logged_at_each_start(folder, caplog):
    (folder / "held_out.txt").write_text("\n\n".join((folder / "corpus.txt").read_text().split("\n\n")[:3]))
    for _ in range(2):  # the second one finds everything made
        caplog.clear()
        load(folder, validation_file=folder / "held_out.txt")
        assert "3 training documents are also held out" in caplog.text
    caplog.clear()
    data = load(folder, validation_file=folder / "held_out.txt", test_fraction=0.3)
    assert "3 training documents are also held out" in caplog.text  # without the test set
    assert len(data.test.policy.documents) > 0


BLANKS = ("\n", "  ", "\u00a0", "\t \u3000", "\r\n\n", "")
"""White space before and after a text, which makes it no other text."""


@parametrize("algorithm", ["wordpiece", "byte_bpe", "unigram"])
def test_held_out_text_is_left_out_whatever_its_file(folder, algorithm):
    """Rows of a table with white space around texts, tokens of another program, text of another format: equal."""
    texts = (folder / "corpus.txt").read_text().strip().split("\n\n")
    (folder / "held_out.txt").write_text("\n\n".join(texts[:5]))
    around = [BLANKS[number % 6] + text + BLANKS[number // 6] for number, text in enumerate(texts)]
    (folder / "rows.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in around))
    options = {"tokenizer_algorithm": algorithm, "vocab_size": 300, "validation_file": folder / "held_out.txt"}
    rows = load(folder, train_file=folder / "rows.jsonl", **options)
    tokenizer = {"tokenizer_path": folder / "tok", "vocab_size": None, "validation_file": folder / "held_out.txt"}
    rows.tokenizer.save_pretrained(folder / "tok")
    ids = [[rows.tokenizer.cls_token_id, *ids] for ids in all_ids(rows.cache)]
    (folder / "tokens").mkdir()
    np.concatenate(ids).astype("<u2").tofile(folder / "tokens" / "a.ds")
    np.cumsum([*map(len, ids)]).astype("<u8").tofile(folder / "tokens" / "a.ds.index")
    foreign = load(folder, train_file=None, token_cache=folder / "tokens", **tokenizer)
    for data in (rows, foreign):
        assert [*data.training_documents] == [*range(5, 30)]
    assert rows.text_provenance == foreign.text_provenance


def test_equal_documents_are_on_one_side(folder):
    texts = (folder / "corpus.txt").read_text().strip().split("\n\n")
    rows = [json.dumps({"text": text + end}) for text in texts for end in ("", "\n", " \n")]
    (folder / "rows.jsonl").write_text("\n".join(rows))
    data = load(folder, train_file=folder / "rows.jsonl")
    trained = {document // 3 for document in data.training_documents}
    assert len(trained) == 24 and len(data.training_documents) == 72 and len(data.held_out_lengths) == 18


def test_options_of_segments_and_cache_are_followed(folder):
    data = load(folder, segment_policy="document", max_eval_segments=3, max_length=8)
    assert isinstance(data.policy, POLICIES["document"])
    assert data.evaluation is not None and len(data.evaluation) == 3
    assert {len(segment.first) + 2 for segment in data.policy.cut(0, np.arange(5))} == {8}
    manifest = data.cache.path / "manifest.json"
    before = manifest.stat().st_mtime_ns
    assert load(folder).cache.path == data.cache.path and manifest.stat().st_mtime_ns == before
    assert load(folder, validation_fraction=0).evaluation is None


def test_several_held_out_texts_are_measured_side_by_side(folder, glue_tokenizer, capsys):
    glue_tokenizer.save_pretrained(folder / "tok")
    old, new = (write_corpus(folder / f"{name}.txt", 5, seed=seed) for name, seed in (("old", 1), ("new", 2)))
    with (folder / "corpus.txt").open("a") as corpus:
        corpus.write("\n" + old.read_text())
    options = {"tokenizer_path": folder / "tok", "vocab_size": None, "max_steps": 2, "eval_steps": 1, "save_steps": 2}
    main(flags(folder, **options, experiment_name="both", validation_file=[f"new={new}", f"old={old}"]))
    assert "old:  generator" in capsys.readouterr().out
    run = folder / "output" / "both"
    logs = [line for line in history(run / "checkpoint-2") if "eval_loss" in line]
    assert [line["step"] for line in logs] == [0, 1, 2]
    columns = read_json(run / "metrics.json")["held_out"]
    assert list(columns) == ["untrained", "frequencies", "trained", "old: untrained", "old: trained"]
    assert columns["old: untrained"]["generator_loss"] == logs[0]["eval_old_generator_loss"]
    assert all(f"{name}</th>" in (run / "report.html").read_text() for name in ("old: trained", "trained"))
    for name, file in (("new", new), ("old", old)):  # alone it has the same metrics
        trainer = make(folder, **options, experiment_name=name, validation_file=file)
        assert len(trainer.train_dataset.policy.documents) == (35 if name == "new" else 30)
        alone = trainer.evaluate()
        prefix = "eval_" if name == "new" else "eval_old_"
        for metric in ("generator_loss", "discriminator_auc", "tokens"):
            assert logs[0][f"{prefix}{metric}"] == alone[f"eval_{metric}"]
    kinds = {curve.kind for curves in make_panels([read_run(run)]).values() for curve in curves}
    assert {"held-out", "held-out: old"} < kinds
    main([f"--resume_from_checkpoint={run}", "--max_steps=3"])
    assert list(read_json(run / "metrics.json")["held_out"]) == list(columns)


@parametrize(("part", "limit"), [("shard", 4096), ("tokenizer", 1000)])  # bytes, less than the part has
def test_a_cache_that_cannot_be_written_is_the_users_error(folder, glue_tokenizer, part, limit):
    glue_tokenizer.save_pretrained(folder / "tok")
    refusal = raises(UserError, match=f"{folder}/cache.*{part}")
    # Captured output is a file, too. tqdm keeps its lock if it cannot write a bar: later bars would wait forever.
    with redirect_stderr(io.StringIO()), refusal, files_up_to(limit):
        load(folder, tokenizer_path=folder / "tok" if part == "shard" else None)
    assert list((folder / "cache").rglob("manifest.json")) == []


def test_held_out_texts_are_found_by_name(folder):
    assert held_out_texts(["a=x", "plain", "a=y", "other"]) == {"": ["plain", "other"], "a": ["x", "y"]}
    file = write_corpus(folder / "a=b.txt", 3)
    assert held_out_texts([str(file)]) == {"": [str(file)]}


def test_a_test_set_is_neither_trained_nor_evaluated_on(folder, glue_tokenizer):
    glue_tokenizer.save_pretrained(folder / "tok")
    options = {"tokenizer_path": folder / "tok", "vocab_size": None}
    text = (folder / "corpus.txt").read_text().strip().split("\n\n")
    # Equal documents that are written in two ways are on one side.
    rows = [json.dumps({"text": document + end}) for document in text for end in ("", " \n")]
    (folder / "rows.jsonl").write_text("\n".join(rows))
    options["train_file"] = folder / "rows.jsonl"
    parts = {}
    for validation in (0.2, 0.4):
        data = load(folder, test_fraction=0.3, validation_fraction=validation, **options)
        policies = (data.policy, data.evaluation.policy, data.test.policy)
        parts[validation] = [{*map(int, policy.documents[:])} for policy in policies]
        train, held_out, test = parts[validation]
        assert (len(held_out), len(test)) == (60 * validation, 18)
        assert train | held_out | test == {*range(60)} and len(train) + len(held_out) + len(test) == 60
        assert all({number ^ 1 for number in part} == part for part in (train, held_out, test))
        assert [*data.training_documents] == sorted(train)
    assert parts[0.2][2] == parts[0.4][2] and parts[0.2][1] < parts[0.4][1]
    alone = load(folder, **options)
    assert {*map(int, alone.evaluation.policy.documents)} == parts[0.2][1]  # as without a test set
    assert alone.test is None and "test_text" not in alone.text_provenance
    (folder / "held_out.txt").write_text("\n\n".join(text[:15]))
    beside = load(folder, test_fraction=0.3, validation_file=folder / "held_out.txt", **options)
    assert {*map(int, beside.test.policy.documents)} == parts[0.2][2] - {*range(30)}  # two rows of each held-out text
    assert min(beside.training_documents) >= 30
    assert "--test_fraction" in refused(lambda: load(folder, test_fraction=0.8, **options))
    assert "--test_fraction" in refused(lambda: load(folder, test_fraction=1, **options))


def test_a_test_set_is_evaluated_once_at_the_end(folder, capsys):
    options = {"max_steps": 2, "eval_steps": 1, "save_steps": 1, "test_fraction": 0.2}
    main(flags(folder, **options))
    assert "test set" in capsys.readouterr().out
    run = folder / "output" / "run"
    logs = read_json(run / "trainer_state.json")["log_history"]
    (test_line,) = (line for line in logs if "test_loss" in line)
    assert test_line["step"] == 2
    assert [line["step"] for line in logs if "eval_loss" in line] == [0, 1, 2]
    assert not any("test_loss" in line for line in history(run / "checkpoint-2"))
    metrics = read_json(run / "metrics.json")
    for name in ("test_loss", "test_generator_loss", "test_discriminator_auc", "test_tokens"):
        assert metrics["test"][name] == test_line[name]
    assert list(metrics["held_out"]) == ["untrained", "frequencies", "trained"]
    assert "test set</th>" in (run / "report.html").read_text()
    trainer = make(folder, **options, experiment_name="other")
    assert trainer.evaluate_test_set()["test_tokens"] == test_line["test_tokens"]
    for changed in (0.1, 0):
        argv = [f"--resume_from_checkpoint={run}", "--max_steps=3", f"--test_fraction={changed}"]
        assert "--test_fraction" in refused(lambda argv=argv: main(argv))
    main([f"--resume_from_checkpoint={run}", "--max_steps=3"])
    logs = read_json(run / "trainer_state.json")["log_history"]
    assert [line["step"] for line in logs if "test_loss" in line] == [3]


def test_a_run_without_evaluations_has_a_test_set(folder):
    main(flags(folder, max_steps=2, save_steps=2, test_fraction=0.2, validation_fraction=0))
    metrics = read_json(folder / "output" / "run" / "metrics.json")
    assert metrics["held_out"] == {} and metrics["test"]["test_tokens"] > 0
