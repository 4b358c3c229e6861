"""What is uploaded where; the Hub's client is replaced by a record of its calls."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub import HfApi
from pytest import raises

from electra.io import hub
from electra.io.errors import UserError
from electra.pretraining.run import main as pretrain
from tests.pretraining.runs import FAST, flags, write_corpus


@pytest.fixture
def uploads(monkeypatch):
    """Repository -> file -> content, as the client was asked to upload them."""
    sent = {}

    def upload_folder(api, *, repo_id, folder_path, commit_message):
        sent[repo_id] = {path.name: path.read_bytes() for path in Path(folder_path).iterdir()}

    monkeypatch.setattr(HfApi, "create_repo", lambda api, name, *, private, exist_ok: SimpleNamespace(repo_id=name))
    monkeypatch.setattr(HfApi, "upload_folder", upload_folder)
    return sent


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "small"
    for name in ("discriminator", "generator", "checkpoint-4"):
        (folder / name).mkdir(parents=True)
        (folder / name / "config.json").write_text(f'{{"of": "{name}"}}')
        (folder / name / "model.safetensors").write_bytes(name.encode())
    return folder


def test_each_network_has_a_repository(uploads, run):
    hub.main([str(run), "--hub_model_id", "me/small"])
    assert set(uploads) == {"me/small-discriminator", "me/small-generator"}
    assert uploads["me/small-generator"]["model.safetensors"] == b"generator"


def test_a_failed_upload_names_the_command_that_repeats_it(run, monkeypatch):
    def fail(*args, **others):
        raise ConnectionError("no route to host")

    monkeypatch.setattr(HfApi, "create_repo", fail)
    with raises(UserError, match=r"no route to host; repeat it with .* --hub_model_id small --private"):
        hub.main([str(run), "--private"])


def test_a_folder_without_networks_is_refused(run):
    with raises(UserError, match="has no discriminator/ or generator/"):
        hub.main([str(run / "checkpoint-4")])


def test_a_run_uploads_its_networks_at_its_end(uploads, tmp_path):
    write_corpus(tmp_path / "corpus.txt")
    hub_options = {"push_to_hub": True, "hub_model_id": "me/tiny", "hub_token": "hf_abc"}
    pretrain(flags(tmp_path, **FAST, **hub_options, max_steps=4, save_steps=2))
    assert set(uploads) == {"me/tiny-discriminator", "me/tiny-generator"}
    run = tmp_path / "output" / "run"
    sent = uploads["me/tiny-discriminator"]["model.safetensors"]
    assert sent == (run / "discriminator" / "model.safetensors").read_bytes()
    assert "hf_abc" not in (run / "config.yaml").read_text()
