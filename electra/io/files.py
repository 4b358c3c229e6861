"""Atomic writes, the paths that users give, and YAML."""

import json
import math
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import yaml
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id

from electra.io.errors import UserError

_ROOT = Path(__file__).parents[1]
CONFIGS = _ROOT / "configs" if (_ROOT / "configs").is_dir() else _ROOT.parent / "configs"
"""The experiment files: inside the installed package, beside it in a checkout."""

# ---- writing


@contextmanager
def open_new(path: Path) -> Iterator[TextIO]:
    """A text file to be written, which appears at `path` when it is complete: a reader never sees a part of it."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(unfinished, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def write_file(content: bytes, path: Path) -> None:
    """`open_new`, for bytes at once."""
    with open_new(path) as file:
        file.buffer.write(content)


def write_json(values: dict[str, Any], path: Path) -> None:
    """`write_file` of a mapping as JSON; nan and infinity become null."""
    text = json.dumps(_finite(values), indent=2, allow_nan=False)
    write_file(f"{text}\n".encode(), path)


def read_json(path: Path) -> dict[str, Any]:
    """The mapping in a file; UserError if it is damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path} cannot be read: {error}; restore or remove it") from error


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(v) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def holds_files(folder: Path) -> bool:
    """Whether a folder has more than hidden entries, such as the temporary file of a `write_file` that was killed."""
    return folder.is_dir() and any(not path.name.startswith(".") for path in folder.iterdir())


def check_results(folder: Path, name: str, about: Mapping[str, Any]) -> None:
    """Refuse a folder of other files, or with results of which `about` is not true."""
    path = folder / name
    found = read_json(path) if path.is_file() else {}
    if holds_files(folder) and not about.items() <= found.items():
        raise UserError(f"{folder} holds other files or other results; choose another --output_dir")


def replace_folder(new: Path, target: Path) -> None:
    """Rename `new` to `target`; after a kill in between, the old folder is complete as `target.previous`."""
    previous = target.with_name(f"{target.name}.previous")
    shutil.rmtree(previous, ignore_errors=True)
    if target.exists():
        os.rename(target, previous)
    os.rename(new, target)
    shutil.rmtree(previous, ignore_errors=True)


def sync_folder(folder: Path) -> None:
    """Make renames and new files in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ---- paths


def config_path(name: str) -> Path:
    """The file of this name, else the one of the package: `configs/glue/paper.yaml` works from any folder."""
    path = Path(name)
    if path.exists() or path.is_absolute():
        return path
    packaged = CONFIGS.joinpath(*path.parts[path.parts[:1] == ("configs",) :])
    return packaged if packaged.is_file() else path


def expand(path: str | Path) -> Path:
    """The path with `~` replaced by the home folder, if that user exists."""
    return Path(os.path.expanduser(path))


def absolute(path: str) -> str:
    return os.path.abspath(expand(path))


def split_name(given: str) -> tuple[str, str]:
    """The name, or "", and the path of `name=path`; a file of that name is a path."""
    match = re.fullmatch(r"([A-Za-z][A-Za-z0-9_]*)=(.+)", given)
    return match.groups() if match and not expand(given).exists() else ("", given)  # type: ignore[return-value]


def absolute_named(given: str) -> str:
    """`name=path`, or a path, with the path absolute."""
    name, path = split_name(given)
    return f"{name}={absolute(path)}" if name else absolute(path)


def absolute_if_there(name: str) -> str:
    """The absolute path of an existing file or folder; anything else, such as a Hub id, unchanged."""
    return absolute(name) if expand(name).exists() else name


def may_be_hub_id(name: str) -> bool:
    """Whether to ask the Hub for `name`: not if it looks like a path, or if its parent is a folder here."""
    try:
        validate_repo_id(name)
    except HFValidationError:
        return False
    is_below_folder = "/" in name and Path(name).parent.is_dir()
    return not is_below_folder and Path(name).suffix not in (".json", ".yaml", ".safetensors", ".txt")


def is_encodable(text: str) -> bool:
    """Whether a text can be written as UTF-8; JSON may hold half of a surrogate pair, which cannot."""
    return re.search("[\ud800-\udfff]", text) is None


# ---- YAML

YAML_ERRORS = (yaml.YAMLError, ValueError, RecursionError)
"""Errors of a text that cannot be read. ValueError: an encoding other than UTF-8."""
_FLOAT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+\Z")
"""Numbers such as 1e-4, which PyYAML takes for text."""


class _Loader(yaml.SafeLoader):
    """Reads 1e-4 as a number."""


class _TextLoader(_Loader):
    """Reads every scalar as text, except null."""

    yaml_implicit_resolvers: dict[str, Any] = {}


class _Dumper(yaml.SafeDumper):
    """Quotes text that looks like a number, and repeats what occurs twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


for _class in (_Loader, _Dumper):
    _class.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))
_TextLoader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"(~|null|)\Z"), ["~", "n", ""])


def read_yaml(text: str) -> Any:
    """Parse a text; one of `YAML_ERRORS` if it is not YAML."""
    return yaml.load(text, Loader=_Loader)


def read_options(folder: Path) -> dict[str, Any] | None:
    """The options of a run from its config.yaml; None if the folder has none, UserError if it is damaged."""
    path = folder / "config.yaml"
    try:
        return dict(read_yaml(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, TypeError, *YAML_ERRORS) as error:
        raise UserError(f"{path} cannot be read: {error}; restore it") from error


def run_options(path: str) -> dict[str, Any]:
    """The options of the run that a folder is, or lies in; empty for other folders and for Hub ids."""
    folder = expand(path)
    if not folder.is_dir():
        return {}
    return read_options(folder) or read_options(folder.parent) or {}


def read_as_written(text: str) -> Any:
    """`read_yaml`, but the outer mapping has text, or lists of text, except for null and inner mappings.

    The type of an option then decides how its value is read, as on a command line: `experiment_name: 1e5` is a name.
    """
    content = read_yaml(text)
    if not isinstance(content, dict):
        return content
    written = yaml.load(text, Loader=_TextLoader)
    return {key: content[key] if isinstance(content.get(key), dict) else value for key, value in written.items()}


def write_as_yaml(values: Any) -> str:
    """Text that `read_yaml` and other readers of YAML read back."""
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
