"""YAML 1.2 (core schema), with duplicate keys refused.

PyYAML reads YAML 1.1, where `010` is 8, `1:30` is 90, `no` is false, `2024-01-01` is a date, `1e-4` is text, and the
last of two equal keys counts.
"""

import re
from typing import Any

import yaml

YAML_ERRORS = (yaml.YAMLError, ValueError)
"""Errors of a text that cannot be read. ValueError: an encoding other than UTF-8."""
_INT = r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"
_FLOAT = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
_CORE = {
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "int": (_INT, list("-+0123456789")),
    "float": (_FLOAT, list("-+.0123456789")),
    "merge": (r"<<", ["<"]),  # not in the schema, but used with anchors
}
_MERGE = "tag:yaml.org,2002:merge"


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                if key.value in seen:
                    raise yaml.composer.ComposerError(
                        problem=f"{key.value} is given twice", problem_mark=key.start_mark
                    )
                seen.add(key.value)
        return node

    def construct_int(self, node: yaml.ScalarNode) -> int:
        text = str(self.construct_scalar(node))
        return int(text, 0 if text[:2] in ("0o", "0x") else 10)


class _Dumper(yaml.SafeDumper):
    """Quotes text that either version would read as something else."""


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_int)
for _name, (_pattern, _first) in _CORE.items():
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(rf"(?:{_pattern})\Z"), _first)


def read_yaml(text: str) -> Any:
    """Parse a text.

    Raises:
        YAML_ERRORS: it is not YAML, or a mapping has a key twice.
    """
    return yaml.load(text, Loader=_Loader)


def read_as_written(text: str) -> Any:
    """`read_yaml`, but scalars of the outer mapping and of its lists stay text, or None.

    The type of an option then decides how its value is read, as on a command line: `experiment_name: 1e5` is a name.
    """
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        content = None if root is None else loader.construct_document(root)
        if root is None or not isinstance(content, dict):
            return content
        nodes = {key.value: value for key, value in root.value if isinstance(key, yaml.ScalarNode)}
        return {key: _as_written(nodes.get(str(key)), value) for key, value in content.items()}
    finally:
        loader.dispose()


def _as_written(node: yaml.Node | None, value: Any) -> Any:
    if isinstance(node, yaml.ScalarNode) and isinstance(value, str | bool | int | float):
        return node.value
    if isinstance(node, yaml.SequenceNode) and isinstance(value, list):
        return [_as_written(*pair) for pair in zip(node.value, value, strict=True)]
    return value


def write_as_yaml(values: Any) -> str:
    """Text that readers of YAML 1.1 and 1.2 read back alike."""
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
