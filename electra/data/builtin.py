"""The builtin corpus: the reference topics and docstrings of the installed standard library.

About 500 documents of English (2.2 MB), so that a first run or a demonstration needs neither a download nor a file.
The sources are parsed with `ast`, which takes about two seconds; nothing is imported or executed.
"""

import ast
import hashlib
import os
import platform
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path

from electra.errors import UserError

TOPICS = Path("pydoc_data", "topics.py")  # the text behind `help("topics")`: one long string per chapter
SKIPPED_FOLDERS = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__", TOPICS.parent.name}
MINIMUM_MODULE_CHARACTERS = 200  # a shorter module has a title, not prose
MINIMUM_TOTAL_BYTES = 100_000  # a stripped installation has the code without the text


def library_folder() -> Path:
    """The standard library of the running interpreter; in a virtual environment, that of its base."""
    return Path(sysconfig.get_paths()["stdlib"])


def builtin_files(library: Path) -> list[Path]:
    """The topics, then the modules sorted by name."""
    modules = []
    for folder, subfolders, names in os.walk(library):
        subfolders[:] = [name for name in subfolders if name not in SKIPPED_FOLDERS]
        modules += [Path(folder, name) for name in names if name.endswith(".py")]
    topics = [library / TOPICS] if (library / TOPICS).is_file() else []
    return topics + sorted(modules, key=lambda path: path.relative_to(library).as_posix())


def builtin_fingerprint(library: Path) -> str:
    """Hash the Python version and the names and sizes of the files (hex sha256)."""
    listing = [f"{path.relative_to(library).as_posix()} {path.stat().st_size}" for path in builtin_files(library)]
    return hashlib.sha256("\n".join([platform.python_version(), *listing]).encode("utf-8")).hexdigest()


def builtin_documents(library: Path | None = None) -> list[str]:
    """One document per reference topic, then one per module with enough docstrings, in source order."""
    library = library or library_folder()
    documents: list[str] = []
    for path in builtin_files(library):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # invalid escapes in string literals
                tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):  # templates, files of another version
            continue
        if path == library / TOPICS:  # topics = {name: text}
            literals = [node.value for node in tree.body if isinstance(node, ast.Assign)]
            documents += [text for literal in literals for text in ast.literal_eval(literal).values() if text.strip()]
        elif len(text := "\n".join(_docstrings(tree))) >= MINIMUM_MODULE_CHARACTERS:
            documents.append(text)
    # Escapes in a string literal may give half of a surrogate pair, which no tokenizer can encode.
    documents = [document.encode("utf-8", "ignore").decode("utf-8").strip("\n") for document in documents]
    if sum(len(document.encode("utf-8")) for document in documents) < MINIMUM_TOTAL_BYTES:
        raise UserError(f"the Python in {library} has too few docstrings (stripped); name a corpus with --train_file")
    return documents


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
