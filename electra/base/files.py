"""Files that several commands read and write: atomic writes, JSON of a known type, paths that users give, and YAML.

Two things are read from folders: which saved models a folder holds, and which options a run of pre-training had.
"""

import json
import math
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import GenericAlias
from typing import Any, TextIO, get_type_hints, overload

import yaml
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id

import electra
from electra.base.typed import T, check_type, parse_json
from electra.core.errors import UserError
from electra.core.objectives import ObjectiveOptions
from electra.core.options import options_with

_PACKAGE = Path(electra.__file__).parent
"""Folder of the installed package or of the checkout's `electra/`."""
CONFIGS = _PACKAGE / "configs" if (_PACKAGE / "configs").is_dir() else _PACKAGE.parent / "configs"
"""Folder of the experiment files: inside the installed package, or beside the package in a checkout."""
TINY_EN = "tiny-en"
"""Name of the English network that comes with the package, in the folder `PACKAGED_NETWORK`."""
PACKAGED_NETWORK = _PACKAGE / "networks" / "tiny_en"
"""Folder of the network `TINY_EN`. The package works without this folder."""

# ---- writing


@contextmanager
def open_new(path: Path) -> Iterator[TextIO]:
    """Open a text file to write, which appears at `path` when the block ends: no reader sees a part of the file.

    While the block runs, the text is in a hidden file of the same folder, .NAME.RANDOM.unfinished, which is removed if
    the block raises an error. If `path` is a symbolic link, its target is written. If `path` is a pipe or a device,
    such as /dev/null, the text is written there directly.
    """
    options: Any = {"encoding": "utf-8", "errors": "backslashreplace", "newline": ""}
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        with open(path, "w", **options) as stream:
            yield stream
        return
    name = os.fsencode(path.name)[:200].decode(errors="ignore")  # a name may have 255 bytes
    unfinished = path.with_name(f".{name}.{secrets.token_hex(4)}.unfinished")
    try:
        with open(unfinished, "x", **options) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def write_file(content: bytes, path: Path) -> None:
    """Write bytes to a file that is new or replaced, as `open_new` does."""
    with open_new(path) as file:
        file.buffer.write(content)


def write_json(values: Mapping[str, object], path: Path) -> None:
    """Write a mapping as JSON to a file that is new or replaced; nan and infinity become null."""
    text = json.dumps(_finite(values), indent=2, allow_nan=False)
    write_file(f"{text}\n".encode(), path)


@overload
def read_json(path: Path) -> dict[str, Any]: ...


@overload
def read_json(path: Path, expected_type: type[T]) -> T: ...


def read_json(path: Path, expected_type: type = dict[str, Any]) -> object:
    """Return the content of a JSON file, checked to be of a type; see `parse_json`.

    Raises:
        UserError: the file is missing, is no JSON, or holds a value of another type.
    """
    if not path.is_file():
        raise UserError(f"{path} is {'no file' if path.exists() else 'missing'}; restore it")
    try:
        return parse_json(path.read_text(encoding="utf-8"), expected_type)
    except ValueError as error:
        raise UserError(f"{path} cannot be read: {error}; restore or remove it") from error


def _finite(value: Any) -> Any:
    """Return a value of JSON with None in place of each number that is not finite."""
    if isinstance(value, dict):
        return {name: _finite(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def holds_files(folder: Path) -> bool:
    """Return True if a folder has more than hidden entries, such as the temporary file of a killed `write_file`."""
    return folder.is_dir() and any(not path.name.startswith(".") for path in folder.iterdir())


def check_results(folder: Path, name: str, about: Mapping[str, object]) -> None:
    """Refuse a folder for results that holds files, unless they are results of the same model and data.

    Args:
        name: name of the JSON file with the results.
        about: values that say which model and data the results are of; results of the same ones have equal values.
    Raises:
        UserError: the folder holds other files or other results, or the JSON file cannot be read.
    """
    path = folder / name
    values = read_json(path) if path.is_file() else {}
    if holds_files(folder) and not about.items() <= values.items():
        raise UserError(f"{folder} holds other files or other results; choose another --output_dir")


@contextmanager
def making_folder(folder: Path) -> Iterator[None]:
    """Make a folder before the block that fills it, so that a folder that cannot be made is an error at once.

    If the block raises an error and the folder is empty, the folder is removed; folders above it stay.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with suppress(OSError):  # the folder has files
            folder.rmdir()
        raise


def replace_folder(new: Path, target: Path) -> None:
    """Rename the folder `new` to `target`, and remove the folder that had this name; see also `share_weights`.

    If the process is killed in between, the old folder is complete under the name TARGET.previous.
    """
    share_weights(new)
    previous = target.with_name(f"{target.name}.previous")
    shutil.rmtree(previous, ignore_errors=True)
    if target.exists():
        os.rename(target, previous)
    os.rename(new, target)
    shutil.rmtree(previous, ignore_errors=True)


def share_weights(folder: Path) -> None:
    """Give the weights in a folder the permissions of its config.json; safetensors lets only the owner read them."""
    config = folder / "config.json"
    for path in folder.glob("*.safetensors") if config.is_file() else ():
        with suppress(OSError):  # a file system without modes
            path.chmod(stat.S_IMODE(config.stat().st_mode))


def sync_folder(folder: Path) -> None:
    """Write the entries of a folder to the disk, so that renames and new files in it survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ---- paths

PATH_TYPES = (str, os.PathLike)
"""Types of a path that a program may give."""


def config_path(name: str) -> Path:
    """Return the path of an experiment file: the user's file, if there is one, else the package's file of this name.

    So `configs/glue/paper.yaml` is found from any folder. If neither file exists, the path is that of the user's file.
    """
    path = expand(name)
    if path.exists() or path.is_absolute():
        return path
    packaged = CONFIGS.joinpath(*path.parts[path.parts[:1] == ("configs",) :])
    return packaged if packaged.is_file() else path


def network_path(name: str) -> Path:
    """Return the path of a network: for the name `TINY_EN` the package's folder, else the path that `name` is.

    If the user has a file or folder called `TINY_EN`, the path is that of the file or folder.

    Raises:
        UserError: the network of the package is asked for, but its folder was removed.
    """
    path = expand(name)
    if name != TINY_EN or path.exists():
        return path
    if not PACKAGED_NETWORK.is_dir():
        raise UserError(f"this installation has no {TINY_EN}: {PACKAGED_NETWORK} was removed; name another network")
    return PACKAGED_NETWORK


def expand(path: str | Path) -> Path:
    """Return the path with `~` and variables such as `$HOME` replaced, if there is such a user or variable.

    A path that exists as it is written stays.
    """
    text = os.fspath(path)
    if "$" in text and not os.path.lexists(text):
        text = os.path.expandvars(text)
    return Path(os.path.expanduser(text))


def check_file(path: str | Path) -> None:
    """Check that a path is that of a file that can be read more than once.

    Raises:
        UserError: there is nothing at the path, or there is a folder, a pipe or a device.
    """
    file = expand(path)
    if not file.exists():
        raise UserError(f"there is no file {path}; correct its name, or the folder that it is in")
    if file.is_dir():
        raise UserError(f"{path} is a folder; name the files in it")
    if not file.is_file():
        raise UserError(f"{path} is a pipe or a device, which can be read only once; write its content to a file")


def absolute(path: str) -> str:
    """Return the absolute path of a file or folder, with `~` and variables replaced; see `expand`."""
    return os.path.abspath(expand(path))


HELD_OUT_WORDS = frozenset({"valid", "validation", "val", "dev", "devel", "development", "test", "eval"})
"""Words that occur in the names of files with text or rows that are not for training."""


def split_name(entry: str) -> tuple[str, str]:
    """Return name and path of an entry `name=path`; "" and the entry if it has no name, or is a path that exists."""
    match = re.fullmatch(r"([A-Za-z][A-Za-z0-9_]*)=(.+)", entry)
    return match.groups() if match and not expand(entry).exists() else ("", entry)  # type: ignore[return-value]


def absolute_named(entry: str) -> str:
    """Return `name=path`, or a path without a name, with the path made absolute."""
    name, path = split_name(entry)
    return f"{name}={absolute(path)}" if name else absolute(path)


def absolute_if_there(name: str) -> str:
    """Return the absolute path of an existing file or folder; return anything else, such as a Hub id, unchanged."""
    return absolute(name) if expand(name).exists() else name


def may_be_hub_id(name: str) -> bool:
    """Return True if `name` may be an id of the Hub: a valid one that does not look like a path here.

    A name looks like a path if it ends as a file does, in .json, .yaml, .safetensors or .txt, or if there is a folder
    of the name before its slash.
    """
    try:
        validate_repo_id(name)
    except HFValidationError:
        return False
    is_below_folder = "/" in name and Path(name).parent.is_dir()
    return not is_below_folder and Path(name).suffix not in (".json", ".yaml", ".safetensors", ".txt")


# ---- fine-tuned models that were saved

CARD = "README.md"
"""File with the card of a model, by the Hub's convention."""
RESULT_NAME = "result.json"
"""File in the folder of a saved model with the line that its run has in results.jsonl."""


def saved_models(folder: Path) -> list[Path]:
    """Return the sorted folders of fine-tuned models: `folder` if a model is in it, else those in its `models/`."""
    if (folder / RESULT_NAME).is_file():
        return [folder]
    folders = sorted(path.parent for path in folder.glob(f"models/[!.]*/{RESULT_NAME}"))
    return [path for path in folders if path.suffix != ".previous"]  # see `replace_folder`


# ---- YAML

YAML_ERRORS = (yaml.YAMLError, ValueError, RecursionError)
"""Errors of reading a file that is no YAML; ValueError for an encoding other than UTF-8."""
_FLOAT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+\Z")
"""Numbers such as 1e-4. PyYAML takes them for text, and therefore writes a text of this form without quotes."""


class _Loader(yaml.SafeLoader):
    """A YAML loader that refuses a mapping with the same key twice, and reads words and numbers as YAML 1.2 does.

    Every scalar is text, except null, true, false and decimal numbers such as 10 or 1e-4. So `no`, `010` and `12:30`
    are text; YAML 1.1, as PyYAML reads it, has false, 8 and 750.
    """

    yaml_implicit_resolvers: dict[str, Any] = {}

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen_keys = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen_keys:
                message = f"{key.value:.80} stands here twice; leave one of the two out"
                raise yaml.composer.ComposerError(None, None, message, key.start_mark)
            seen_keys.add(key.value)
        return node


class _TextLoader(_Loader):
    """A YAML loader that reads every scalar as text, except null and the key `<<` of a merge."""

    yaml_implicit_resolvers: dict[str, Any] = {}


class _Dumper(yaml.SafeDumper):
    """A YAML dumper that quotes text that looks like a number, and writes repeated values out, without references."""

    def ignore_aliases(self, data: object) -> bool:
        return True


_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))
for _class in (_Loader, _TextLoader):
    _class.add_implicit_resolver("tag:yaml.org,2002:merge", re.compile(r"<<\Z"), ["<"])
_TextLoader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"(~|null|)\Z"), ["~", "n", ""])
for _tag, _pattern, _beginnings in (
    ("null", r"(~|null|Null|NULL|)\Z", ["~", "n", "N", ""]),
    ("bool", r"(true|True|TRUE|false|False|FALSE)\Z", list("tTfF")),
    ("int", r"[-+]?(0|[1-9][0-9_]*)\Z", list("-+0123456789")),
    ("float", r"[-+]?([0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)\Z", list("-+.0123456789")),
    ("float", _FLOAT.pattern, list("-+.0123456789")),
    ("float", r"([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))\Z", list("-+.")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), _beginnings)


def read_yaml(text: str) -> Any:
    """Return the value that a text of YAML stands for.

    Raises:
        yaml.YAMLError, ValueError, RecursionError: see `YAML_ERRORS`.
    """
    return yaml.load(text, Loader=_Loader)


def read_as_written(text: str) -> object:
    """Return the mapping in a text of YAML, with each scalar as the text that the user wrote.

    The type of an option then decides how its text is read, as on a command line: `experiment_name: 1e5` is a name.
    Null is None, and lists hold text. A value that is a mapping itself is read by `read_yaml`, and so is a text that
    is no mapping.

    Raises:
        yaml.YAMLError, ValueError, RecursionError: see `YAML_ERRORS`.
    """
    content = read_yaml(text)
    if not isinstance(content, dict):
        return content
    written = yaml.load(text, Loader=_TextLoader)
    return {key: content[key] if isinstance(content.get(key), dict) else value for key, value in written.items()}


def yaml_text(values: object) -> str:
    """Return values as a text of YAML that `read_yaml` and other programs read back."""
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


# ---- options of a run

OPTIONS_TITLE = "Effective options"
"""Beginning of the comment in the first line of each config.yaml that a command of this package writes."""
OPTIONS_READ_BY_OTHERS: dict[str, Any] = {
    "objective": str,
    "max_length": int,
    "tie": str | None,
    "hidden_dropout_prob": float,
    "attention_probs_dropout_prob": float,
    **{name: get_type_hints(ObjectiveOptions)[name] for name in options_with("of_corruption", ObjectiveOptions)},
}
"""Option of a run that other commands read -> the type that it has in the run's config.yaml."""


def read_options(folder: Path) -> dict[str, Any] | None:
    """Return the options of a run from its config.yaml; None if the folder has no such file.

    Raises:
        UserError: the file cannot be read, is no mapping, or an option of `OPTIONS_READ_BY_OTHERS` has another type.
    """
    path = folder / "config.yaml"
    if not path.is_file():
        return None
    try:
        options = check_type(read_yaml(path.read_text(encoding="utf-8")), dict[str, Any])
        for name in options.keys() & OPTIONS_READ_BY_OTHERS.keys():
            check_type({name: options[name]}, GenericAlias(dict, (str, OPTIONS_READ_BY_OTHERS[name])))
    except (OSError, *YAML_ERRORS) as error:
        raise UserError(f"{path} cannot be read: {error}; restore it") from error
    return dict(options)


_PART_OF_RUN = re.compile(r"discriminator|generator|checkpoint-\d+")
"""Names of the folders in a run: of its exported networks and its checkpoints."""


def run_of(path: str) -> Path | None:
    """Return the folder of a run of pre-training; None if the path is a Hub id or belongs to no run.

    A run is a folder with checkpoints or exported networks. A config.yaml makes no run, because other programs write
    files of this name.

    Args:
        path: the run's folder, or the folder of one of its checkpoints or exported networks.
    """
    folder = network_path(path).resolve()
    if not folder.is_dir():
        return None
    run = folder.parent if _PART_OF_RUN.fullmatch(folder.name) else folder
    return run if any(_PART_OF_RUN.fullmatch(part.name) for part in run.iterdir()) else None


def run_options(path: str) -> dict[str, Any]:
    """Return the options of a run of pre-training, by name; {} without a run or without its config.yaml.

    Args:
        path: as in `run_of`.
    Raises:
        UserError: config.yaml cannot be read, or is no mapping.
    """
    run = run_of(path)
    return {} if run is None else read_options(run) or {}
