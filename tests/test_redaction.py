"""What may be published of options and command lines."""

import pytest

from electra.environment import shown_command, without_secrets


def test_secrets_are_left_out_of_options() -> None:
    options = {"hub_token": "hf_1", "mask_token_id": 4, "wandb_api_key": "k", "tokenizer_path": "t"}
    assert without_secrets(options) == {"mask_token_id": 4, "tokenizer_path": "t"}


@pytest.mark.parametrize("argv", [["--hub_token", "hf_1"], ["--hub_token=hf_1"], ["--wandb-api-key", "hf_1"]])
def test_secrets_are_left_out_of_commands(argv: list[str]) -> None:
    shown = shown_command("run.py", ["--seed", "1", *argv, "--train_file", "a b.txt"])
    assert "hf_1" not in shown and "..." in shown
    name = argv[0].partition("=")[0]
    assert shown.startswith(f"python run.py --seed 1 {name}") and shown.endswith("--train_file 'a b.txt'")
