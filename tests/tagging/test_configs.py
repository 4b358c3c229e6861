"""The configurations of tagging are valid command lines, and what they say they are."""

from pathlib import Path

import pytest

from electra.tagging.options import Arguments, parse_arguments

CONFIGS = Path(__file__).parents[2] / "configs" / "tagging"


def parse(*argv: str) -> Arguments:
    return parse_arguments(["--pretrain_path=a", "--train_file=x/b.txt", "--validation_file=x/c.txt", *argv])


def test_the_files_set_what_their_sources_say() -> None:
    google, bert, features = (
        parse(f"--config={CONFIGS / f'{name}.yaml'}") for name in ("google", "bert", "bert_features")
    )
    assert (google.options.scheme, google.tuning.max_length, google.tuning.product_schedule) == ("bioes", 256, True)
    assert (bert.tuning.learning_rate, bert.tuning.layerwise_lr_decay, bert.options.frozen_features) == (
        3e-5,
        1.0,
        False,
    )
    chosen = features.options
    assert (chosen.frozen_features, chosen.feature_layers, chosen.feature_head, chosen.feature_lstm_size) == (
        True, "concat_last_4", "bilstm", 768,
    )  # fmt: skip


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_configuration_says_what_it_is(path: Path) -> None:
    assert path.read_text().startswith("# ") and parse(f"--config={path}").options.num_seeds == 5


def test_a_task_is_called_after_its_folder_or_as_asked() -> None:
    assert parse().task == "x"
    assert parse("--task_name", "CoNLL 2003").task == "CoNLL_2003"
    assert parse_arguments(["--pretrain_path=a", "--dataset_name=some/names"]).task == "names"
