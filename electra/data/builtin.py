"""The builtin corpus: the reference topics and docstrings of the installed standard library.

About 500 documents of English (2.2 MB), so that a first run or a demonstration needs neither a download nor a file.
The sources are parsed with `ast`, which takes about two seconds; nothing is imported or executed.
"""

import ast
import hashlib
import logging
import os
import platform
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path

from electra.errors import UserError

logger = logging.getLogger(__name__)

TOPICS = Path("pydoc_data", "topics.py")  # the text behind `help("topics")`: one long string per chapter
SKIPPED_FOLDERS = frozenset(
    {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__", TOPICS.parent.name}
)
MINIMUM_MODULE_CHARACTERS = 200  # a shorter module has a title, not prose
MINIMUM_TOTAL_BYTES = 100_000  # a stripped installation has the code without the text


def library_folder() -> Path:
    """The standard library of the running interpreter; in a virtual environment, that of its base."""
    return Path(sysconfig.get_paths()["stdlib"])


def builtin_files(library: Path) -> list[Path]:
    """List the sources of the corpus: the topics, then the modules sorted by name. Empty without such a folder."""
    modules = []
    for folder, subfolders, names in os.walk(library):
        subfolders[:] = [name for name in subfolders if name not in SKIPPED_FOLDERS]
        modules += [Path(folder, name) for name in names if name.endswith(".py")]
    modules.sort(key=lambda path: path.relative_to(library).as_posix())
    topics = library / TOPICS
    return [topics, *modules] if topics.is_file() else modules


def builtin_fingerprint(library: Path | None = None) -> str:
    """Hash the Python version and the names and sizes of the files (hex sha256)."""
    library = library or library_folder()
    listing = [f"{path.relative_to(library).as_posix()} {path.stat().st_size}" for path in builtin_files(library)]
    return hashlib.sha256("\n".join([platform.python_version(), *listing]).encode("utf-8")).hexdigest()


def builtin_documents(library: Path | None = None) -> Iterator[str]:
    """Yield one document per reference topic, then one per module with enough docstrings, in source order.

    Args:
        library: a standard library folder; that of the running interpreter if None.
    Raises:
        UserError: less than 100 kB of text was found: an installation without sources or docstrings.
    """
    library = library or library_folder()
    documents: list[str] = []
    for path in builtin_files(library):
        tree = _parse(path)
        if tree is None:
            continue
        if path == library / TOPICS:
            documents += _topics(tree)
        else:
            text = "\n".join(_docstrings(tree))
            if len(text) >= MINIMUM_MODULE_CHARACTERS:
                documents.append(text)
    # Escapes in a string literal may give half of a surrogate pair, which no tokenizer can encode.
    documents = [document.encode("utf-8", "ignore").decode("utf-8").strip("\n") for document in documents]
    total = sum(len(document.encode("utf-8")) for document in documents)
    if total < MINIMUM_TOTAL_BYTES:
        raise UserError(
            f"the builtin corpus has only {total} bytes on this Python: the installation in "
            f"{library} has no docstrings (stripped); name a corpus with --train_file"
        )
    logger.info("builtin corpus: %d documents, %d bytes", len(documents), total)
    yield from documents


def _parse(path: Path) -> ast.Module | None:
    """Parse a source file; None if it is not valid Python (templates, files of another version)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in string literals
            return ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError) as error:
        logger.debug("builtin corpus: %s skipped: %s", path, error)
        return None


def _topics(tree: ast.Module) -> list[str]:
    """The values of the literal `topics = {name: text}`, in order, without blank ones."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            texts = [value.value for value in node.value.values if isinstance(value, ast.Constant)]
            return [text for text in texts if isinstance(text, str) and text.strip()]
    return []


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
