"""The world of bad inputs, made once; each test gets a copy to stand in."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerBase
from transformers.integrations.deepspeed import unset_hf_deepspeed_config

from tests.bad_input.world import write_world


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory, glue_tokenizer: PreTrainedTokenizerBase) -> Path:
    return write_world(tmp_path_factory.mktemp("world"), glue_tokenizer)


@pytest.fixture
def world(pristine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the world, which is also the working directory."""
    folder = tmp_path / "world"
    shutil.copytree(pristine, folder)
    monkeypatch.chdir(folder)
    yield folder
    unset_hf_deepspeed_config()  # of the process, set by a case that names a bad one
