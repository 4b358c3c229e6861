"""Tokens of other programs are read where they are; files that are damaged or hold no tokens are refused."""

import functools
import json
import os
import re
import shutil

import datasets
import numpy as np
import pytest

from electra.base.checkpoints import write_manifest
from electra.data.foreign import open_cache
from electra.data.policies import POLICIES, make_policy
from electra.data.shards import load_or_build_cache
from electra.data.token_cache import TokenCache
from tests.conftest import refused
from tests.data.rows import all_ids
from tests.helpers import ROOT, parametrize, read_json


def contents(cache):
    """Ids, lengths and hashes of all documents of a cache."""
    return all_ids(cache), cache.lengths.tolist(), cache.content_hashes.tolist()


def write_datatrove(path, documents, dtype="<u2"):
    """A file of datatrove with its index."""
    path.parent.mkdir(parents=True, exist_ok=True)
    np.concatenate(documents).astype(dtype).tofile(path)
    np.cumsum([len(ids) for ids in documents]).astype("<u8").tofile(f"{path}.index")
    return path


def test_tokens_of_datatrove_are_read_where_they_are(number_tokenizer, tmp_path):
    write_datatrove(tmp_path / "b.ds", [[2, 9, 10, 3], [3], [11]])
    write_datatrove(tmp_path / "a.ds", [[7, 8, 3]], "<u4")
    cache = open_cache(tmp_path, number_tokenizer, str(tmp_path / "cache"))
    ids, lengths, _ = contents(cache)
    assert ids == [[7, 8], [9, 10], [11]] and lengths == [2, 2, 1]
    assert contents(open_cache(tmp_path, number_tokenizer, str(tmp_path / "cache"))) == contents(cache)
    np.array([10, 9, 8], "<u4").tofile(tmp_path / "a.ds")  # of equal size
    assert contents(open_cache(tmp_path, number_tokenizer, str(tmp_path / "cache")))[0][0] == [10, 9, 8]


def test_a_file_that_is_cut_after_it_was_opened_is_refused(number_tokenizer, tmp_path):
    write_datatrove(tmp_path / "a.ds", [[7, 8, 9]])
    open_cache(tmp_path, number_tokenizer, str(tmp_path / "cache"))
    os.truncate(tmp_path / "a.ds", 5)
    message = refused(lambda: open_cache(tmp_path, number_tokenizer, str(tmp_path / "cache")))
    assert "a.ds" in message and "3 tokens" in message


def test_tokens_without_lines_are_no_text_for_the_policy_of_lines(number_tokenizer, tmp_path):
    write_datatrove(tmp_path / "a.ds", [[7, 8, 9] * 10, [10, 11] * 10])
    cache = open_cache(tmp_path, number_tokenizer, str(tmp_path / "cache"))
    for name in POLICIES:
        policy = functools.partial(make_policy, name, cache, np.arange(2), max_length=8, seed=1)
        if name == "google":
            assert "--segment_policy google" in refused(policy)
        else:
            assert len(policy()) > 0


def test_the_snippet_of_the_page_writes_the_tokens_of_a_data_set(number_tokenizer, tmp_path, monkeypatch):
    ids = [[2, 5 + number, 6, 3] for number in range(100)]
    dataset = datasets.Dataset.from_dict({"n": [*range(100)], "input_ids": ids})
    (snippet,) = re.findall(
        r"```python\n(import numpy\n.*?)```", (ROOT / "docs" / "clusters.md").read_text(), re.DOTALL
    )
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tokens").mkdir()
    exec(snippet, {"dataset": dataset})
    cache = open_cache(tmp_path / "tokens", number_tokenizer, str(tmp_path / "cache"))
    assert contents(cache)[0] == [[5 + number, 6] for number in range(100)]


def test_documents_are_equal_whatever_wrote_their_tokens(number_tokenizer, write_corpus, tmp_path):
    documents = [[7, 8], [300, 9, 10], [11]]
    framed = [[2, *ids, 3] for ids in documents]
    for dtype in ("<u2", "<u4"):
        write_datatrove(tmp_path / "foreign" / f"{dtype[1:]}.ds", framed, dtype)
    foreign = open_cache(tmp_path / "foreign", number_tokenizer, str(tmp_path / "cache"))
    texts = [" ".join(map(str, ids)) for ids in documents]
    cache = load_or_build_cache(write_corpus(texts), number_tokenizer, tmp_path)
    assert all_ids(foreign) == 2 * documents
    assert foreign.content_hashes.tolist() == 2 * cache.content_hashes.tolist()


# Damaged files, and files without tokens


def with_index(*ends, dtype="<u8"):
    """A function that writes a file of 4000 tokens into a folder, with these ends of documents in its index."""

    def write(folder):
        path = write_datatrove(folder / "a.ds", [[5] * 4000])
        np.array(ends).astype(dtype).tofile(f"{path}.index")

    return write


WITHOUT_TOKENS = {
    "another data set": (lambda folder: (folder / "state.json").write_text("{}"), "docs/clusters.md"),
    "an id that the vocabulary lacks": (lambda folder: write_datatrove(folder / "a.ds", [[8, 6000, 9]]), "6000"),
    "one of four bytes": (lambda folder: write_datatrove(folder / "a.ds", [[70_000]], "<u4"), "70000"),
    "ends that descend": (with_index(100, 50, 4000), "a.ds.index"),
    "an end behind the file": (with_index(40, 9000, 4000), "a.ds.index"),
    "no tokens": (with_index(0), "a.ds"),
    "an empty index": (with_index(), "a.ds"),
    "huge ends": (with_index(2**63 + 5, 2**64 - 1), "a.ds"),
    "five bytes": (with_index(1, 2, 3, 4, 5, dtype="<u1"), "a.ds.index"),
}
"""What is wrong in a folder -> a function that writes it, and what the message names."""


@parametrize("name", WITHOUT_TOKENS)
def test_what_holds_no_tokens_of_the_vocabulary_is_refused_in_one_line(name, number_tokenizer, tmp_path):
    write, named = WITHOUT_TOKENS[name]
    folder = tmp_path / "tokens"
    folder.mkdir()
    write(folder)
    assert named in refused(lambda: open_cache(folder, number_tokenizer, str(tmp_path / "cache")))
    assert {path.suffix for path in (tmp_path / "cache").glob("*")} <= {".lock"}


def test_a_file_that_is_gone_is_named(number_tokenizer, tmp_path):
    write_datatrove(tmp_path / "a.ds", [[5]])
    (tmp_path / "a.ds.index").unlink()
    with pytest.raises(FileNotFoundError, match=r"a\.ds\.index"):
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
    """A function that changes one value of the only file of a description."""

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
"""What is wrong in a description -> a function that changes it so, and what the message names."""


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
