"""Text that comes with Python: the reference topics and the docstrings of the installed standard library.

About 500 documents of English (2.2 MB), so that a first run or a demonstration needs neither a download nor a file.
The sources are parsed with `ast`, which takes about two seconds; nothing is imported or executed.
"""

import ast
import functools
import os
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

TOPICS = Path("pydoc_data", "topics.py")  # the text behind `help("topics")`: one long string per chapter
SKIPPED_FOLDERS = {"site-packages", "dist-packages", "test", "tests", "idle_test", TOPICS.parent.name}
"""Folders of the standard library whose docstrings are no part of the built-in text."""
MINIMUM_MODULE_CHARACTERS = 200  # a shorter module has a title, not prose
LIBRARY = Path(sysconfig.get_paths()["stdlib"])
"""The standard library of the running interpreter; in a virtual environment, that of its base."""


def builtin_files(library: Path = LIBRARY) -> list[Path]:
    """Return the paths of the built-in text's files: the topics, then the modules sorted by name."""
    modules = []
    for folder, subfolders, names in os.walk(library):
        subfolders[:] = [name for name in subfolders if name not in SKIPPED_FOLDERS]
        modules += [Path(folder, name) for name in names if name.endswith(".py")]
    topics = [library / TOPICS] if (library / TOPICS).is_file() else []
    return topics + sorted(modules, key=lambda path: path.relative_to(library).as_posix())


@functools.cache  # read for the tokenizer, for the token cache, for the demonstration task
def builtin_documents(library: Path = LIBRARY) -> Sequence[str]:
    """Return a document for each reference topic, then one for each module: its docstrings, in the order of its lines.

    Modules with fewer than `MINIMUM_MODULE_CHARACTERS` in their docstrings are left out.
    """
    documents: list[str] = []
    for path in builtin_files(library):
        tree = ast.parse(path.read_bytes())
        if path == library / TOPICS:
            assigned = [ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign)]
            documents += [text for topics in assigned for text in topics.values() if text.strip()]
            continue
        prose = "\n".join(_docstrings(tree))
        if len(prose) >= MINIMUM_MODULE_CHARACTERS:
            documents.append(prose)
    # Escapes in a string literal may give half of a surrogate pair, which no tokenizer can encode.
    return [document.encode("utf-8", "ignore").decode("utf-8").strip("\n") for document in documents]


def _docstrings(node: ast.AST) -> Iterator[str]:
    """Yield the cleaned docstrings of a module, class or function and of everything in it, in source order."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        docstring = ast.get_docstring(node, clean=True)
        if docstring and docstring.strip():
            yield docstring
    for child in ast.iter_child_nodes(node):
        # Definitions are in statements (if, try, with, match), never in expressions.
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from _docstrings(child)
