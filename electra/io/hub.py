"""Upload of a finished run to the Hugging Face Hub.

    electra push output/small_owt --hub_model_id me/small_owt --private

The discriminator becomes the repository `<id>-discriminator`, the generator `<id>-generator`; `AutoModel` opens
each by its name. The joint network of the checkpoints is never uploaded: transformers has no class for it.
"""

import logging
from pathlib import Path

from huggingface_hub import HfApi

from electra.io.console import setup_logging
from electra.io.errors import Parser, UserError

logger = logging.getLogger(__name__)


def push_run(
    run: Path,
    hub_model_id: str,
    *,
    token: str | None,
    private: bool | None,
) -> None:
    """Upload the exported networks of a run, each to a repository of its own.

    `hub_model_id` is `name` or `owner/name`, without the network's suffix.

    Raises:
        UserError: the run has no networks, or an upload fails; the message names the command that repeats it.
    """
    folders = [run / name for name in ("discriminator", "generator")]
    networks = [folder for folder in folders if (folder / "config.json").is_file()]
    if not networks:
        raise UserError(f"{run} has no discriminator/ or generator/; name the folder of a finished pre-training run")
    api = HfApi(token=token)
    for folder in networks:
        try:
            repository = api.create_repo(f"{hub_model_id}-{folder.name}", private=private, exist_ok=True).repo_id
            api.upload_folder(repo_id=repository, folder_path=folder, commit_message=f"{folder.name} of {run.name}")
        except Exception as error:  # the client raises its own errors and those of its HTTP library
            again = f"python -m electra push {run} --hub_model_id {hub_model_id}"
            if private:
                again += " --private"
            raise UserError(f"the upload of {folder} failed: {error}; repeat it with {again}") from error
        logger.info("%s uploaded to %s/%s", folder.name, api.endpoint, repository)


def main(argv: list[str] | None = None) -> None:
    setup_logging()
    parser = Parser(prog="electra push", description="Upload the networks of a finished run to the Hugging Face Hub.")
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a run of run_pretraining.py")
    parser.add_argument("--hub_model_id", help="name or owner/name of the repositories; default: the folder's name")
    parser.add_argument("--hub_token", help="default: the token of `hf auth login` or HF_TOKEN")
    parser.add_argument("--private", action="store_true", default=None, help="create private repositories")
    given = parser.parse_args(argv)
    name = given.hub_model_id or given.run.resolve().name
    push_run(given.run, name, token=given.hub_token, private=given.private)
