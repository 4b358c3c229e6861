"""Fine-tune an encoder on SQuAD 1.1 or 2.0 and score its answers, with several seeds.

    python run_squad.py --pretrain_path output/small_owt                       SQuAD 1.1, from the Hub
    python run_squad.py --pretrain_path output/small_owt --dataset_name squad_v2
    python run_squad.py --pretrain_path google/electra-small-discriminator --train_file train-v2.0.json \
        --validation_file dev-v2.0.json --config configs/squad/paper_v2.yaml

Which version it is the data says. Every option: --help. Values come from defaults, then --config, then flags.
The same command again continues where it was stopped.
"""

from electra.console import setup_logging
from electra.errors import run_script
from electra.finetuning.protocol.evaluation import open_evaluation
from electra.finetuning.protocol.finish import finish
from electra.finetuning.protocol.setup import open_encoder, prepare
from electra.squad.family import Squad
from electra.squad.options import parse_arguments


def main(argv: list[str] | None = None) -> None:
    setup_logging()
    args = parse_arguments(argv)
    encoder = open_encoder(args)
    evaluation = open_evaluation(args, "squad")
    squad = Squad(args, encoder, evaluation)
    runs = prepare(squad)

    runs.run_all()

    finish(squad, runs.tasks)


if __name__ == "__main__":
    run_script(main)
