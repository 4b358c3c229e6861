"""Fine-tune an encoder on multiple choice, such as SWAG, and score it, with several seeds.

    python run_swag.py --pretrain_path output/small_owt                        SWAG, from the Hub
    python run_swag.py --pretrain_path output/small_owt --train_file train.csv --validation_file dev.csv
    python run_swag.py --pretrain_path output/small_owt --dataset_name allenai/ai2_arc --dataset_config_name ARC-Easy

Every option: --help. Values come from defaults, then --config (configs/swag/), then flags.
The same command again continues where it was stopped.
"""

from electra.console import setup_logging
from electra.errors import run_script
from electra.finetuning.protocol.evaluation import open_evaluation
from electra.finetuning.protocol.finish import finish
from electra.finetuning.protocol.setup import open_encoder, prepare
from electra.multiple_choice.family import MultipleChoice
from electra.multiple_choice.options import parse_arguments


def main(argv: list[str] | None = None) -> None:
    setup_logging()
    args = parse_arguments(argv)
    encoder = open_encoder(args)
    evaluation = open_evaluation(args, args.task)
    choice = MultipleChoice(args, encoder, evaluation)
    runs = prepare(choice)

    runs.run_all()

    finish(choice, runs.tasks)


if __name__ == "__main__":
    run_script(main)
