"""The command that uploads a finished run, or fine-tuned models, to the Hugging Face Hub.

    electra push output/small_owt --hub_model_id me/small_owt --private
    electra push output/classify_reviews_small_owt --hub_model_id me/reviews

The docstring of base/hub.py says which repositories are made.
"""

from pathlib import Path

from electra.base.console import setup_logging
from electra.base.hub import push_run
from electra.base.parser import Parser


def main(argv: list[str] | None = None) -> None:
    setup_logging()
    about = "Upload the networks of a finished run, or fine-tuned models, to the Hugging Face Hub."
    parser = Parser(prog="electra push", description=about)
    parser.add_argument(
        "run",
        type=Path,
        metavar="FOLDER",
        help="a run of run_pretraining.py, a model that --save_model saved, or the evaluation that has it",
    )
    parser.add_argument("--hub_model_id", help="name or owner/name of the repositories; default: the folder's name")
    parser.add_argument("--hub_token", help="default: the token of `hf auth login` or HF_TOKEN")
    parser.add_argument("--private", action="store_true", default=None, help="create private repositories")
    parser.add_argument(
        "--scores",
        nargs="+",
        type=Path,
        default=[],
        metavar="EVALUATION",
        help="folders of glue, pairs ..., whose .eval_results are uploaded with the discriminator",
    )
    arguments = parser.parse_args(argv)
    name = arguments.hub_model_id or arguments.run.resolve().name
    push_run(arguments.run, name, token=arguments.hub_token, private=arguments.private, scores=arguments.scores)
