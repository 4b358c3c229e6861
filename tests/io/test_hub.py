"""Uploads against a small server that speaks the Hub's HTTP interface, by huggingface_hub's own client."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from electra.io import hub
from electra.io.errors import UserError
from electra.pretraining.run import main as pretrain
from tests.pretraining.runs import FAST, flags, write_corpus

TOKEN = "hf_" + "a" * 34


class Hub:
    """What the server was sent, which status it answers commits with, and how many it leaves without an answer."""

    endpoint = ""
    status = 200
    unanswered = 0

    def __init__(self) -> None:
        self.files: dict[tuple[str, str], dict[str, bytes]] = {}
        """(repository, revision) -> file -> content"""
        self.tokens: set[str] = set()
        self.visibilities: set[str] = set()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    state = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            state.tokens.add(self.headers.get("Authorization", ""))
            parts = self.path.split("?")[0].strip("/").split("/")
            repository = "/".join(parts[2:4])
            if parts[-1] == "create":
                asked = json.loads(body)
                state.visibilities.add(str(asked.get("visibility", asked.get("private"))))
                repository = f"{asked.get('organization') or 'me'}/{asked['name']}"
                state.files.setdefault((repository, "main"), {})
                self.answer({"url": f"{state.endpoint}/{repository}", "name": repository})
            elif "preupload" in parts:
                files = [{"path": f["path"], "uploadMode": "regular"} for f in json.loads(body)["files"]]
                self.answer({"files": [{**f, "shouldIgnore": False, "oid": None} for f in files]})
            elif "commit" in parts and state.unanswered:
                state.unanswered -= 1
                self.close_connection = True
            elif "commit" in parts:
                for line in map(json.loads, body.splitlines()):
                    if line["key"] == "file" and state.status == 200:
                        received = state.files.setdefault((repository, parts[-1]), {})
                        received[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
                url = f"{state.endpoint}/{repository}/commit/1"
                self.answer({"commitUrl": url, "commitOid": "1" * 40}, state.status)
            else:  # a branch, or the check of a card's metadata
                self.answer({"errors": [], "warnings": []})

        def do_GET(self) -> None:
            is_known = self.path == "/api/whoami-v2"
            self.answer({"name": "me", "type": "user"} if is_known else {}, 200 if is_known else 404)

        def answer(self, content: dict[str, Any], status: int = 200) -> None:
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.endpoint = f"http://127.0.0.1:{http.server_port}"
    threading.Thread(target=http.serve_forever, daemon=True).start()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", state.endpoint)
    monkeypatch.setattr("huggingface_hub.hf_api.api.endpoint", state.endpoint)
    yield state
    http.shutdown()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "small"
    for name in ("discriminator", "generator", "checkpoint-4"):
        (folder / name).mkdir(parents=True)
        (folder / name / "config.json").write_text(f'{{"of": "{name}"}}')
        (folder / name / "model.safetensors").write_bytes(name.encode())
    return folder


def push(run: Path, *flags: str) -> None:
    hub.main([str(run), "--hub_model_id", "me/small", "--hub_token", TOKEN, *flags])


def test_each_network_has_a_repository_and_the_joint_network_stays_here(server: Hub, run: Path) -> None:
    push(run)
    assert {repository for repository, _ in server.files} == {"me/small-discriminator", "me/small-generator"}
    sent = server.files["me/small-discriminator", "main"]
    assert sent["model.safetensors"] == b"discriminator" and set(sent) == {"config.json", "model.safetensors"}
    assert server.tokens == {f"Bearer {TOKEN}"} and not server.visibilities & {"private", "True"}


def test_checkpoints_and_a_revision_are_sent_if_asked_for(server: Hub, run: Path) -> None:
    push(run, "--with_checkpoints", "--revision", "v1", "--private")
    assert server.visibilities <= {"private", "True"}
    assert server.files["me/small-discriminator", "v1"]["checkpoint-4/model.safetensors"] == b"checkpoint-4"
    assert set(server.files["me/small-generator", "v1"]) == {"config.json", "model.safetensors"}


def test_a_refusal_is_one_line_with_the_command_to_repeat(server: Hub, run: Path) -> None:
    with pytest.raises(UserError, match="discriminator"):
        push(run / "checkpoint-4")
    server.status = 403
    with pytest.raises(UserError, match="electra-push"):
        push(run)


def test_an_interrupted_upload_is_repeated(server: Hub, run: Path) -> None:
    server.unanswered = 1
    push(run)
    assert "model.safetensors" in server.files["me/small-discriminator", "main"]


def test_a_run_uploads_its_networks_at_its_end_and_nothing_before(server: Hub, tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus.txt")
    hub_options = {"push_to_hub": True, "hub_model_id": "me/tiny", "hub_token": TOKEN, "hub_strategy": "every_save"}
    pretrain(flags(tmp_path, **FAST, **hub_options, max_steps=4, save_steps=2))
    assert {repository for repository, _ in server.files} == {"me/tiny-discriminator", "me/tiny-generator"}
    run = tmp_path / "output" / "run"
    sent = server.files["me/tiny-discriminator", "main"]
    assert sent["model.safetensors"] == (run / "discriminator" / "model.safetensors").read_bytes()
    assert TOKEN not in (run / "config.yaml").read_text()
