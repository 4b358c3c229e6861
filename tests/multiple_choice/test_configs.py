"""The configurations of multiple choice are valid command lines, and what they say they are."""

from pathlib import Path

from electra.multiple_choice.options import parse_arguments

CONFIGS = Path(__file__).parents[2] / "configs" / "swag"


def test_the_file_of_berts_paper_sets_what_it_says() -> None:
    args = parse_arguments(["--pretrain_path=a", f"--config={CONFIGS / 'bert.yaml'}"])
    assert (args.tuning.learning_rate, args.tuning.per_device_train_batch_size) == (2e-5, 16)
    assert (args.task, args.options.dataset_name, args.options.dataset_config_name) == (
        "swag",
        "allenai/swag",
        "regular",
    )
