"""YAML 1.2 as it looks, and what is written for readers of either version."""

import pytest
import yaml

from electra.yaml_text import read_yaml, write_as_yaml

TEXTS = ["no", "on", "010", "1:30", "1e5", "1e-4", "0o17", "2024-01-01", "", "~", ".inf", "1_000", "true", "a: b", "é"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("010", 10),
        ("0o17", 15),
        ("0x1F", 31),
        ("1e-4", 0.0001),
        (".5", 0.5),
        ("-.inf", float("-inf")),
        ("1_000", "1_000"),
        ("True", True),
        ("off", "off"),
        ("2024-01-01", "2024-01-01"),
        ("", None),
        ("=", "="),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text: str, value: object) -> None:
    found = read_yaml(text)
    assert found == value and type(found) is type(value)


def test_a_name_twice_is_refused_but_may_stand_above_a_merged_one() -> None:
    with pytest.raises(yaml.YAMLError, match=r"(?s)b .*line 3"):
        read_yaml("a: [{c: 1,\n b: 1,\n b: 2}]")
    assert read_yaml("x: &x {a: 1}\ny: &y {<<: *x, a: 2}\nz: {<<: *y, a: 3}")["z"] == {"a": 3}


@pytest.mark.parametrize("load", [read_yaml, yaml.safe_load])
def test_what_is_written_is_read_back_by_either_version(load) -> None:
    values = {"texts": TEXTS, "numbers": [0, -3, 0.5, 1e-4, 1e30, float("inf")], "others": [True, None, {}]}
    assert load(write_as_yaml(values)) == values
