"""What says which data a result is of: bytes of files, names of data sets."""

from pathlib import Path

import pytest

from electra.errors import UserError
from electra.finetuning.sources import data_settings, fingerprint


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_a_fingerprint_is_of_bytes_in_their_order_and_not_of_names(tmp_path: Path) -> None:
    a, b, c = (write(tmp_path / name, text) for name, text in (("a", "one"), ("b", "two"), ("c", "one")))
    assert fingerprint([a]) == fingerprint([c]) != fingerprint([b])
    assert len({fingerprint(paths) for paths in ([a, b], [b, a], [a], [a, c])}) == 4
    assert data_settings([a], [b], None) == {"train_data": fingerprint([a]), "validation_data": fingerprint([b])}
    with pytest.raises(UserError, match=r"cannot read .*nowhere: No such file"):
        fingerprint([tmp_path / "nowhere"])


def test_a_data_set_is_its_name_and_a_folder_its_files_but_those_of_the_test_set(tmp_path: Path) -> None:
    assert data_settings([], [], "squad") == {"train_data": "squad train", "validation_data": "squad validation"}
    assert data_settings([], [], "arc", "easy")["train_data"] == "arc easy train"
    write(tmp_path / "set" / "train.jsonl", "one")
    before = data_settings([], [], str(tmp_path / "set"))
    write(tmp_path / "set" / "test.jsonl", "two")
    assert data_settings([], [], str(tmp_path / "set")) == before
    write(tmp_path / "set" / "train.jsonl", "three")
    assert data_settings([], [], str(tmp_path / "set")) != before
