"""Tokens of other programs are read where they are; files that are damaged or hold no tokens are refused."""

import functools
import json
import os
import shutil

import datasets
import numpy as np
import pyarrow as pa
import pytest

from electra.base.checkpoints import write_manifest
from electra.data.foreign import open_cache
from electra.data.policies import POLICIES, make_policy
from electra.data.shards import load_or_build_cache
from electra.data.token_cache import TokenCache
from tests.conftest import refused
from tests.data.rows import all_ids
from tests.helpers import parametrize, read_json

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (16, 32, 64)]


def contents(cache):
    return all_ids(cache), cache.lengths.tolist(), cache.content_hashes.tolist()


def write_datatrove(path, documents, dtype="<u2"):
    """A file of datatrove with its index."""
    path.parent.mkdir(parents=True, exist_ok=True)
    np.concatenate(documents).astype(dtype).tofile(path)
    np.cumsum([len(ids) for ids in documents]).astype("<u8").tofile(f"{path}.index")
    return path


def write_saved(folder, column, kind):
    """A data set of one column, input_ids, as `save_to_disk` writes it."""
    datasets.Dataset(datasets.table.InMemoryTable(pa.table({"input_ids": pa.array(column, kind)}))).save_to_disk(
        folder
    )


def test_tokens_of_datatrove_are_read_where_they_are(number_tokenizer, tmp_path):
    for name, documents, dtype in (("b", [[2, 9, 10, 3], [3], [11]], "<u2"), ("a", [[7, 8, 3]], "<u4")):
        np.concatenate(documents).astype(dtype).tofile(tmp_path / f"{name}.ds")
        np.cumsum([len(ids) for ids in documents]).astype("<u8").tofile(tmp_path / f"{name}.ds.index")
    cache = open_cache(tmp_path, number_tokenizer, str(tmp_path / "cache"))
    ids, lengths, _ = contents(cache)
    assert ids == [[7, 8], [9, 10], [11]] and lengths == [2, 2, 1]
    assert contents(open_cache(tmp_path, number_tokenizer, str(tmp_path / "cache"))) == contents(cache)
    np.array([10, 9, 8], "<u4").tofile(tmp_path / "a.ds")  # of equal size
    assert contents(open_cache(tmp_path, number_tokenizer, str(tmp_path / "cache")))[0][0] == [10, 9, 8]
    os.truncate(tmp_path / "a.ds", 9)
    assert "a.ds does not have the 3 tokens" in refused(lambda: open_cache(tmp_path, number_tokenizer, str(tmp_path)))
    np.array([70_000], "<u4").tofile(tmp_path / "a.ds")
    np.array([1], "<u8").tofile(tmp_path / "a.ds.index")
    assert "70000" in refused(lambda: open_cache(tmp_path, number_tokenizer, str(tmp_path / "refused")))
    assert not [*(tmp_path / "refused").iterdir()]


def test_tokens_without_lines_are_no_text_for_the_policy_of_lines(number_tokenizer, tmp_path):
    write_datatrove(tmp_path / "a.ds", [[7, 8, 9] * 10, [10, 11] * 10])
    cache = open_cache(tmp_path, number_tokenizer, str(tmp_path / "cache"))
    for name in POLICIES:
        policy = functools.partial(make_policy, name, cache, np.arange(2), max_length=8, seed=1)
        if name == "google":
            assert "--segment_policy google" in refused(policy)
        else:
            assert len(policy()) > 0


@parametrize(("dtype", "length"), [("int32", 4), ("int64", -1), ("uint16", -1)])
def test_a_saved_dataset_of_tokens_is_read_where_it_is(number_tokenizer, tmp_path, dtype, length):
    documents = [[2, 5 + n, 6, 3] for n in range(100)]
    ids = datasets.List(datasets.Value(dtype), length)
    features = datasets.Features({"n": datasets.Value("int64"), "input_ids": ids})
    rows = {"n": [*range(100)], "input_ids": documents}
    datasets.Dataset.from_dict(rows, features=features).save_to_disk(tmp_path / "saved", num_shards=3)
    cache = open_cache(tmp_path / "saved", number_tokenizer, str(tmp_path / "cache"))
    assert contents(cache)[0] == [[5 + n, 6] for n in range(100)]
    shutil.copy(next((tmp_path / "saved").glob("*.arrow")), tmp_path / "saved" / "cache-1.arrow")  # of `map`
    assert len(open_cache(tmp_path / "saved", number_tokenizer, str(tmp_path / "cache"))) == 100
    datasets.Dataset.from_dict({"text": ["a"]}).save_to_disk(tmp_path / "text")
    assert "'input_ids'" in refused(lambda: open_cache(tmp_path / "text", number_tokenizer, str(tmp_path)))
    splits = datasets.DatasetDict({"train": datasets.Dataset.from_dict(rows)})
    splits.save_to_disk(tmp_path / "splits")
    assert "splits/train" in refused(lambda: open_cache(tmp_path / "splits", number_tokenizer, str(tmp_path)))
    assert "no tokens" in refused(lambda: open_cache(tmp_path / "cache" / "x", number_tokenizer, str(tmp_path)))


def test_documents_are_equal_whatever_wrote_their_tokens(number_tokenizer, write_corpus, tmp_path):
    documents = [[7, 8], [300, 9, 10], [11]]
    framed = [[2, *ids, 3] for ids in documents]
    for dtype in ("<u2", "<u4"):
        write_datatrove(tmp_path / "foreign" / f"{dtype[1:]}.ds", framed, dtype)
    for name in INTEGERS:
        write_saved(tmp_path / "foreign" / name, framed, pa.list_(pa.type_for_alias(name)))
    foreign = open_cache(tmp_path / "foreign", number_tokenizer, str(tmp_path / "cache"))
    own = load_or_build_cache(write_corpus([" ".join(map(str, ids)) for ids in documents]), number_tokenizer, tmp_path)
    assert all_ids(foreign) == 8 * documents
    assert foreign.content_hashes.tolist() == 8 * own.content_hashes.tolist()


def test_lists_that_are_missing_or_empty_are_no_documents(number_tokenizer, tmp_path):
    rows = [[5, 6], None, [], [2, 3], [7]]
    for number, kind in enumerate((pa.list_(pa.int8()), pa.large_list(pa.int32()), pa.list_(pa.int64(), 2))):
        is_fixed = pa.types.is_fixed_size_list(kind)
        write_saved(
            tmp_path / str(number), [row for row in rows if not is_fixed or row is None or len(row) == 2], kind
        )
        cache = open_cache(tmp_path / str(number), number_tokenizer, str(tmp_path / "cache"))
        assert all_ids(cache) == ([[5, 6]] if is_fixed else [[5, 6], [7]])


# Damaged files, and files without tokens


def saved(column, kind):
    return lambda folder: write_saved(folder / "saved", column, kind)


def with_index(*ends, dtype="<u8"):
    def write(folder):
        path = write_datatrove(folder / "a.ds", [[5] * 4000])
        np.array(ends).astype(dtype).tofile(f"{path}.index")

    return write


def with_state(content):
    def write(folder):
        write_saved(folder / "saved", [[5]], pa.list_(pa.int32()))
        (folder / "saved" / "state.json").write_text(content)

    return write


def compressed(folder):
    write_saved(folder, [[5] * 1000], pa.list_(pa.int32()))
    table = pa.table({"input_ids": [[5] * 1000]})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(folder / "data-00000-of-00001.arrow", table.schema, options=options) as writer:
        writer.write_table(table)


def cut(folder):
    write_saved(folder, [[5] * 1000], pa.list_(pa.int32()))
    os.truncate(folder / "data-00000-of-00001.arrow", 2000)


BAD = {
    "text": (saved([["5"]], pa.list_(pa.string())), "string"),
    "lists": (saved([[[5]]], pa.list_(pa.list_(pa.int32()))), "list<"),
    "fractions": (saved([[5.0]], pa.list_(pa.float32())), "float"),
    "booleans": (saved([[True]], pa.list_(pa.bool_())), "bool"),
    "nulls": (saved([[5, None]], pa.list_(pa.int32())), "null"),
    "no lists": (saved([5], pa.int32()), "int32"),
    "names of tokens": (saved(["five"], pa.string()), "string"),
    "negative": (saved([[8, -7, 9]], pa.list_(pa.int32())), "-7"),
    "too large": (saved([[8, 6000, 9]], pa.list_(pa.int64())), "6000"),
    "larger than int64": (saved([[8, 2**64 - 1]], pa.list_(pa.uint64())), str(2**64 - 1)),
    "compressed": (compressed, "compression"),
    "cut": (cut, "data-00000-of-00001.arrow"),
    "no state": (with_state("[]"), "state.json"),
    "another state": (with_state('{"_data_files": 5}'), "state.json"),
    "ends that descend": (with_index(100, 50, 4000), "a.ds.index"),
    "an end behind the file": (with_index(40, 9000, 4000), "a.ds.index"),
    "no tokens": (with_index(0), "a.ds"),
    "an empty index": (with_index(), "a.ds"),
    "huge ends": (with_index(2**63 + 5, 2**64 - 1, dtype="<u8"), "a.ds"),
    "five bytes": (with_index(1, 2, 3, 4, 5, dtype="<u1"), "a.ds.index"),
}


@parametrize("name", BAD)
def test_what_holds_no_tokens_is_refused_in_one_line(name, number_tokenizer, tmp_path):
    write, named = BAD[name]
    folder = tmp_path / "tokens"
    folder.mkdir()
    write(folder)
    assert named in refused(lambda: open_cache(folder, number_tokenizer, str(tmp_path / "cache")))
    assert not [*(tmp_path / "cache").glob("*")]


def test_a_file_that_is_gone_is_named(number_tokenizer, tmp_path):
    with_state('{"_data_files": [{"filename": "gone.arrow"}]}')(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"gone\.arrow"):
        open_cache(tmp_path, number_tokenizer, str(tmp_path / "cache"))


def test_one_id_that_is_changed_makes_another_index(number_tokenizer, tmp_path):
    path = write_datatrove(tmp_path / "tokens" / "a.ds", [[5] * 100_000])
    open_cache(path.parent, number_tokenizer, str(tmp_path / "cache"))
    ids = np.memmap(path, "<u2", mode="r+")
    ids[31_000] = 7
    ids.flush()
    assert open_cache(path.parent, number_tokenizer, str(tmp_path / "cache")).tokens(0, 31_000, 1) == [7]
    ids[31_000] = 60_000
    ids.flush()
    assert "60000" in refused(lambda: open_cache(path.parent, number_tokenizer, str(tmp_path / "cache")))


# A cache of our own that is damaged, or of another version


def edit_entry(name, value):
    def edit(description):
        (file,) = description["files"]
        file[name] = value

    return edit


EDITS = {
    "objects": (edit_entry("dtype", "O"), "cache.json"),
    "fractions": (edit_entry("dtype", "float16"), "cache.json"),
    "no type": (edit_entry("dtype", None), "cache.json"),
    "another file": (edit_entry("path", "gone.arrow"), "gone.arrow"),
    "more documents": (edit_entry("documents", 5), "cache.json"),
    "no files": (lambda description: description.pop("files"), "cache.json"),
    "an earlier version": (lambda description: description.update(format_version=4), "format 4"),
}


@parametrize("name", EDITS)
def test_a_description_that_is_not_right_is_refused(name, make_numbered_cache, number_tokenizer, tmp_path):
    change, named = EDITS[name]
    folder = tmp_path / "moved"
    shutil.copytree(make_numbered_cache([5, 9]).path, folder)
    description = read_json(folder / "cache.json")
    change(description)
    (folder / "cache.json").write_text(json.dumps(description))
    write_manifest(folder, "data.arrow", "shard.json")
    assert named in refused(lambda: open_cache(folder, number_tokenizer, str(tmp_path)))


def test_a_document_outside_its_file_is_refused(make_numbered_cache, tmp_path):
    shutil.copytree(make_numbered_cache([5, 9]).path, tmp_path / "moved")
    np.save(tmp_path / "moved" / "starts.npy", np.array([-3, 10**6]))
    cache = TokenCache(tmp_path / "moved")
    for document in range(2):
        assert "damaged" in refused(lambda document=document: cache.tokens(document, 0, 5))
