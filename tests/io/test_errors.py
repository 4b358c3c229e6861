"""Commands end with an exit code and one line; worker processes start wherever temporary files are."""

import multiprocessing
import tempfile
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from torch.utils.data import DataLoader

from electra.io.errors import UserError, run_script, shorten_socket_paths


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (UserError("first\n  second"), 2, "error: first second"),
        (OSError(28, "No space left", "a.txt"), 2, "error: [Errno 28] No space left: 'a.txt'"),
        (ModuleNotFoundError("No module", name="seqeval"), 2, "pip install seqeval"),
        (KeyboardInterrupt(), 130, "stopped"),
        (SystemExit(85), 85, ""),
    ],
)
def test_a_command_ends_with_one_line_and_an_exit_code(
    error: BaseException, code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        run_script(Mock(side_effect=error))
    said = capsys.readouterr().err
    assert stop.value.code == code and line in said and said.count("\n") == (1 if line else 0)


@pytest.mark.parametrize(
    "error", [ValueError("a bug"), OSError("without a number"), ModuleNotFoundError(name="tocrh")]
)
def test_an_error_of_the_program_is_not_hidden(error: Exception) -> None:
    with pytest.raises(type(error)):
        run_script(Mock(side_effect=error))


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
