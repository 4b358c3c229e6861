"""What says which data a result is of."""

from electra.finetuning.data import dataset_settings, file_settings, fingerprint


def write(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_a_fingerprint_is_of_bytes_and_not_of_names(tmp_path):
    a, b, c = (write(tmp_path / name, text) for name, text in (("a", "one"), ("b", "two"), ("c", "one")))
    assert fingerprint([a]) == fingerprint([c]) != fingerprint([b])
    assert len({fingerprint(paths) for paths in ([a, b], [b, a], [a], [a, c])}) == 4
    assert file_settings({"train": [a], "dev": [b]}) == {
        "train_data": fingerprint([a]),
        "validation_data": fingerprint([b]),
    }


def test_a_data_set_is_its_name_or_its_files(tmp_path):
    assert dataset_settings("squad") == {"train_data": "squad train", "validation_data": "squad validation"}
    assert dataset_settings("arc", "easy")["train_data"] == "arc easy train"
    write(tmp_path / "set" / "train.jsonl", "one")
    before = dataset_settings(str(tmp_path / "set"))
    assert dataset_settings(str(tmp_path / "set")) == before
    write(tmp_path / "set" / "train.jsonl", "three")
    assert dataset_settings(str(tmp_path / "set")) != before
