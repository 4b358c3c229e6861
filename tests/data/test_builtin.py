"""The builtin corpus: which text of a Python installation becomes a document, and when there is too little."""

import sys
from pathlib import Path

import pytest

from electra.data.builtin import builtin_documents, builtin_files, builtin_fingerprint, library_folder
from electra.errors import UserError

PROSE = "This sentence is long enough to be taken for prose by whoever counts its characters. " * 4
FILLER = '"""' + "Filler text of a very long module docstring.\n" * 3000 + '"""\n'  # lifts the total above 100 kB


def make_library(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def test_this_python_gives_distinct_documents_without_importing_what_it_reads(tmp_path: Path) -> None:
    (tmp_path / "pydoc_data").mkdir()
    for name in ("pydoc_data/topics.py", "this.py", "antigravity.py", "statistics.py", "argparse.py", "turtle.py"):
        (tmp_path / name).symlink_to(library_folder() / name)  # parsing the whole library takes seconds
    before = set(sys.modules)
    documents = list(builtin_documents(tmp_path))
    assert {"pydoc_data", "antigravity", "turtle"}.isdisjoint(set(sys.modules) - before)
    assert len(builtin_files(library_folder())) > 300 and len(set(documents)) > 50
    assert not any(not document.strip() or "\0" in document or "\r" in document for document in documents)
    text = "\n".join(documents)
    assert "The Zen of Python" not in text  # in the library as code, not as a docstring
    assert "Return the median (middle value) of numeric data." in text  # statistics.median
    assert "An assignment statement evaluates the expression list" in text  # help("ASSIGNMENT")


def test_docstrings_come_in_source_order_cleaned_and_joined_by_a_newline(tmp_path: Path) -> None:
    module = f'''"""Module. {PROSE}"""
if True:
    def first():
        """First.

        Not indented.
            Indented.
        """
        def inner():
            "Inner."
class Second:
    """Second."""
    async def method(self):
        """Method."""
        text = """not a docstring"""
try:
    pass
except ValueError:
    def third():
        """Third."""
def silent():
    return 1
'''
    library = make_library(tmp_path, {"module.py": module, "zzz.py": FILLER})
    expected = f"Module. {PROSE}\nFirst.\n\nNot indented.\n    Indented.\nInner.\nSecond.\nMethod.\nThird."
    assert next(iter(builtin_documents(library))) == expected


def test_topics_come_first_one_document_each_and_modules_follow_sorted_by_name(tmp_path: Path) -> None:
    topics = "# generated\ntopics = {'b': 'Second topic', 'a': r'''First \\d topic\n''', 'empty': ' \\n'}\n"
    files = {
        "pydoc_data/topics.py": topics,
        "pydoc_data/other.py": FILLER,
        "b.py": f'"""B. {PROSE}"""',
        "a.py": FILLER,
    }
    library = make_library(tmp_path, files)
    documents = list(builtin_documents(library))
    assert documents == list(builtin_documents(library))
    assert documents[:2] == ["Second topic", "First \\d topic"]
    assert [document[:6] for document in documents[2:]] == ["Filler", "B. Thi"]


@pytest.mark.parametrize(
    "name", ["site-packages/p.py", "dist-packages/p.py", "test/t.py", "x/tests/t.py", "idlelib/idle_test/t.py"]
)
def test_packages_and_tests_are_left_out(tmp_path: Path, name: str) -> None:
    library = make_library(tmp_path, {"a.py": FILLER, name: f'"""Left out. {PROSE}"""'})
    assert builtin_files(library) == [library / "a.py"]


@pytest.mark.parametrize("source", ["def broken(:\n", "null = '\0'\n", '"""Short."""\n', "x = 1\n"])
def test_modules_that_do_not_parse_or_say_little_are_skipped(tmp_path: Path, source: str) -> None:
    library = make_library(tmp_path, {"a.py": FILLER, "b.py": source})
    assert len(builtin_files(library)) == 2
    assert len(list(builtin_documents(library))) == 1


def test_half_a_surrogate_pair_is_dropped_because_no_tokenizer_can_encode_it(tmp_path: Path) -> None:
    library = make_library(tmp_path, {"a.py": f'"""Lone \\ud800 half. {PROSE}"""', "b.py": FILLER})
    assert next(iter(builtin_documents(library))).startswith("Lone  half. This")


def test_an_installation_without_docstrings_is_an_error_that_names_the_way_out(tmp_path: Path) -> None:
    library = make_library(tmp_path, {"a.py": "x = 1\n", "b.py": f'"""{PROSE}"""'})
    with pytest.raises(UserError, match="--train_file") as caught:
        list(builtin_documents(library))
    assert str(library) in str(caught.value)
    with pytest.raises(UserError, match="missing"):
        list(builtin_documents(tmp_path / "missing"))


def test_the_fingerprint_follows_the_listing(tmp_path: Path) -> None:
    library = make_library(tmp_path, {"a.py": "x = 1\n"})
    first = builtin_fingerprint(library)
    assert first == builtin_fingerprint(library) and len(first) == 64
    make_library(library, {"a.py": "x = 12\n"})
    second = builtin_fingerprint(library)
    make_library(library, {"b.py": ""})
    assert len({first, second, builtin_fingerprint(library)}) == 3
    assert builtin_fingerprint() == builtin_fingerprint(library_folder())
