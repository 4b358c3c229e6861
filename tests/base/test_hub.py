"""What is uploaded where; the Hub's client is replaced by a record of its calls."""

import json
from types import SimpleNamespace

import pytest
from huggingface_hub import HfApi
from pytest import raises

from electra.core.errors import UserError
from electra.pretraining.finish import finish_run
from electra.pretraining.run import main as pretrain
from electra.tools.push import main as push
from tests.pretraining.runs import FAST, flags, make, write_corpus


@pytest.fixture
def uploads(monkeypatch):
    """Repository -> file -> content, as the client was asked to upload them."""
    sent = {}

    def create_commit(api, repo_id, operations, *, commit_message):
        files = {}
        for operation in operations:
            with operation.as_file() as file:
                files[operation.path_in_repo] = file.read()
        sent[repo_id] = files

    monkeypatch.setattr(HfApi, "create_repo", lambda api, name, *, private, exist_ok: SimpleNamespace(repo_id=name))
    monkeypatch.setattr(HfApi, "create_commit", create_commit)
    return sent


@pytest.fixture
def run(tmp_path):
    """The folder of a run with two networks, whose weights are their names, and a checkpoint."""
    folder = tmp_path / "small"
    for name in ("discriminator", "generator", "checkpoint-4"):
        (folder / name).mkdir(parents=True)
        (folder / name / "config.json").write_text(f'{{"of": "{name}"}}')
        (folder / name / "model.safetensors").write_bytes(name.encode())
    return folder


def test_each_network_has_a_repository(uploads, run):
    push([str(run), "--hub_model_id", "me/small"])
    assert set(uploads) == {"me/small-discriminator", "me/small-generator"}
    assert uploads["me/small-generator"]["model.safetensors"] == b"generator"


def test_scores_of_evaluations_go_with_the_discriminator(uploads, run, tmp_path):
    write_model(tmp_path / "blimp")
    push([str(run), "--hub_model_id", "me/small", "--scores", str(tmp_path / "blimp")])
    has_scores = {name: ".eval_results/a-validation.yaml" in files for name, files in uploads.items()}
    assert has_scores == {"me/small-discriminator": True, "me/small-generator": False}
    uploads.clear()
    with raises(UserError, match=r"has no .eval_results/"):
        push([str(run), "--scores", str(run)])
    assert not uploads


def test_a_failed_upload_is_refused_in_one_line(run, monkeypatch):
    def fail(*args, **others):
        raise ConnectionError("no route to host")

    monkeypatch.setattr(HfApi, "create_repo", fail)
    with raises(UserError, match=f"{run}/discriminator failed: no route to host"):
        push([str(run)])


def test_a_folder_without_networks_is_refused(run):
    with raises(UserError, match="has no discriminator/ or generator/"):
        push([str(run / "checkpoint-4")])


CARD = '# Title\n\n```python\nmodel = AutoModel.from_pretrained("output/a/models/TASK")\n```\n'


def write_model(folder):
    """A fine-tuned model as --save_model leaves it, without its weights."""
    (folder / ".eval_results").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "result.json").write_text('{"task": "a", "model": "/home/me/output/small"}')
    (folder / "README.md").write_text(CARD.replace("TASK", folder.name))
    (folder / ".eval_results" / "a-validation.yaml").write_text("- value: 0.5\n")
    return folder


def test_a_fine_tuned_model_is_uploaded_with_its_scores(uploads, tmp_path):
    evaluation = tmp_path / "output" / "a"
    model = write_model(evaluation / "models" / "reviews")
    for folder in (model, evaluation):
        uploads.clear()
        push([str(folder), "--hub_model_id", "me/reviews"])
        assert set(uploads) == {"me/reviews"}
        files = uploads["me/reviews"]
        assert {"config.json", "result.json", "README.md", ".eval_results/a-validation.yaml"} == set(files)
        assert b'from_pretrained("me/reviews")' in files["README.md"] and b"output" not in files["README.md"]
        assert json.loads(files["result.json"])["model"] == "small"
    assert "models/reviews" in (model / "README.md").read_text()


def test_only_files_of_the_export_are_uploaded(uploads, tmp_path, capsys):
    model = write_model(tmp_path / "models" / "reviews")
    for name in ("model.safetensors", "model-00001-of-00002.safetensors", "tokenizer.json", "vocab.txt"):
        (model / name).write_text(name)
    exported = {path.relative_to(model).as_posix() for path in model.rglob("*") if path.is_file()}
    (tmp_path / "private.csv").write_text("a text")
    (model / "link.csv").symlink_to(tmp_path / "private.csv")
    (model / "old").mkdir()
    others = (".env", "answers.csv", "old/config.json", "my_config.json", "tokenizer.json.bak", "optimizer.pt")
    for name in others:
        (model / name).write_text("secret")
    push([str(model), "--hub_model_id", "me/reviews"])
    assert set(uploads["me/reviews"]) == exported
    (line,) = [line for line in "".join(capsys.readouterr()).splitlines() if "not uploaded" in line]
    assert all(name in line for name in (*others, "link.csv"))


def test_of_several_models_each_has_a_repository(uploads, tmp_path):
    for name in ("cola", "rte", ".mrpc.unfinished"):
        write_model(tmp_path / "models" / name)
    push([str(tmp_path), "--hub_model_id", "me/small"])
    assert set(uploads) == {"me/small-cola", "me/small-rte"}


def test_a_model_whose_evaluation_has_not_ended_is_refused(uploads, tmp_path):
    (write_model(tmp_path / "models" / "cola") / "README.md").unlink()
    with raises(UserError, match=r"has no README.md: .* run its command again"):
        push([str(tmp_path)])
    assert not uploads


def test_a_run_uploads_its_networks_at_its_end(uploads, tmp_path):
    write_corpus(tmp_path / "corpus.txt")
    hub_options = {"push_to_hub": True, "hub_model_id": "me/tiny", "hub_token": "hf_abc"}
    pretrain(flags(tmp_path, **FAST, **hub_options, max_steps=4, save_steps=2))
    assert set(uploads) == {"me/tiny-discriminator", "me/tiny-generator"}
    run = tmp_path / "output" / "run"
    weights = uploads["me/tiny-discriminator"]["model.safetensors"]
    assert weights == (run / "discriminator" / "model.safetensors").read_bytes()
    assert "hf_abc" not in (run / "config.yaml").read_text()


def test_a_trainer_uploads_the_networks_that_it_has_exported(uploads, tmp_path):
    write_corpus(tmp_path / "corpus.txt")
    options = {**FAST, "save_steps": 2, "hub_model_id": "me/tiny"}
    trainer = make(tmp_path, **options, max_steps=2)
    trainer.train()
    with raises(UserError, match="finish_run"):
        trainer.push_to_hub()
    finish_run(trainer)
    with raises(TypeError, match="commit_message"):
        trainer.push_to_hub(commit_message="done")
    assert not uploads
    trainer.push_to_hub()
    assert set(uploads) == {"me/tiny-discriminator", "me/tiny-generator"}
    files = {path.name for path in (tmp_path / "output" / "run" / "discriminator").iterdir()}
    assert set(uploads["me/tiny-discriminator"]) == files
    longer = make(tmp_path, **options, max_steps=4, resume_from_checkpoint=tmp_path / "output" / "run")
    with raises(UserError, match="after step 4"):  # the exported networks are those of step 2
        longer.push_to_hub()
