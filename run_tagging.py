"""Fine-tune an encoder to label words, such as names (NER) or chunks, and score it, with several seeds.

    python run_tagging.py --pretrain_path output/small_owt --train_file eng.train --validation_file eng.testa
    python run_tagging.py --pretrain_path output/small_owt --dataset_name some/data --label_column chunk_tags
    python run_tagging.py --pretrain_path output/small_owt --train_file a.txt --validation_file b.txt --frozen_features

Every option: --help. Values come from defaults, then --config (configs/tagging/), then flags.
The same command again continues where it was stopped.
"""

from electra.console import setup_logging
from electra.errors import run_script
from electra.finetuning.protocol.evaluation import open_evaluation
from electra.finetuning.protocol.finish import finish
from electra.finetuning.protocol.setup import open_encoder, prepare
from electra.tagging.family import Tagging
from electra.tagging.options import parse_arguments


def main(argv: list[str] | None = None) -> None:
    setup_logging()
    args = parse_arguments(argv)
    encoder = open_encoder(args)
    evaluation = open_evaluation(args, args.task)
    tagging = Tagging(args, encoder, evaluation)
    runs = prepare(tagging)

    runs.run_all()

    finish(tagging, runs.tasks)


if __name__ == "__main__":
    run_script(main)
