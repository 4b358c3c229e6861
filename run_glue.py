"""Fine-tune an encoder on GLUE and score it, with several seeds.

    python run_glue.py --pretrain_path output/quickstart --tasks demo          a few minutes, needs no data
    python run_glue.py --pretrain_path output/small_owt                        all of GLUE, from the Hub
    python run_glue.py --pretrain_path google/electra-small-discriminator --glue_dir glue_data --num_seeds 10
    python run_glue.py --from_scratch output/small_owt --tasks cola rte        the same network untrained

Every option: --help. Values come from defaults, then --config (configs/glue/demo.yaml for --tasks demo, otherwise
none if not given), then flags. The defaults are those of configs/glue/paper.yaml, with 5 seeds where it has 10.
The same command again continues where it was stopped.
"""

from electra.console import setup_logging
from electra.errors import run_script
from electra.finetuning.protocol.evaluation import open_evaluation
from electra.finetuning.protocol.finish import finish
from electra.finetuning.protocol.setup import open_encoder, prepare
from electra.glue.family import Glue
from electra.glue.options import parse_arguments


def main(argv: list[str] | None = None) -> None:
    setup_logging()
    args = parse_arguments(argv)
    encoder = open_encoder(args)
    evaluation = open_evaluation(args, "glue")
    glue = Glue(args, encoder, evaluation)
    runs = prepare(glue)

    runs.run_all()

    finish(glue, runs.tasks)


if __name__ == "__main__":
    run_script(main)
