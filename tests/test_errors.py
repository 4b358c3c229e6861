"""Commands end with an exit code and one line; worker processes start wherever temporary files are."""

import multiprocessing
import tempfile
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

from electra.errors import UserError, run_script, shorten_socket_paths


def test_a_user_error_is_one_line_and_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise UserError("first\n  second")

    with pytest.raises(SystemExit) as stop:
        run_script(fail)
    assert stop.value.code == 2
    assert capsys.readouterr().err == "error: first second\n"


def test_data_loader_workers_deliver_below_a_long_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("y" * 150)
    folder.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setitem(multiprocessing.current_process()._config, "tempdir", None)  # type: ignore[attr-defined]
    shorten_socket_paths()
    loader = DataLoader(torch.arange(4.0), batch_size=2, num_workers=1, timeout=60)  # type: ignore[arg-type]
    assert [batch.tolist() for batch in loader] == [[0.0, 1.0], [2.0, 3.0]]
    assert tempfile.gettempdir() == str(folder) and not any(folder.iterdir())
