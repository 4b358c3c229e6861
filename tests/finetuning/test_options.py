"""Data on the command line is above data in a file, for every kind of task that reads files or data sets."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from electra.errors import UserError
from electra.tasks.multiple_choice.task import parse_arguments as parse_choice
from electra.tasks.squad.task import parse_arguments as parse_squad
from electra.tasks.tagging.task import parse_arguments as parse_tagging

FLAGS = ["--pretrain_path=a", "--train_file=t", "--validation_file=v"]


@pytest.mark.parametrize("parse", [parse_squad, parse_tagging, parse_choice])
def test_files_on_the_command_line_replace_the_data_set_of_a_file_and_the_reverse(
    parse: Callable[[list[str]], Any], tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("dataset_name: d\nnum_seeds: 3\n")
    args = parse([*FLAGS, f"--config={config}"])
    assert args.options.dataset_name is None and args.options.train_file in ("t", ["t"])
    assert "dataset_name" not in args.effective and args.effective["num_seeds"] == 3
    config.write_text("train_file: t\nvalidation_file: v\n")
    args = parse(["--pretrain_path=a", "--dataset_name=d", f"--config={config}"])
    assert args.options.dataset_name == "d" and not args.options.train_file and not args.options.validation_file
    assert not {"train_file", "validation_file"} & set(args.effective)
    with pytest.raises(UserError, match="both"):
        parse([*FLAGS, "--dataset_name=d"])
    config.write_text("dataset_name: d\ntrain_file: t\nvalidation_file: v\n")
    with pytest.raises(UserError, match="both"):
        parse(["--pretrain_path=a", f"--config={config}"])
