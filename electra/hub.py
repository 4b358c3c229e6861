"""Model cards, and the upload of a finished run to the Hugging Face Hub.

    electra-push output/small_owt --hub_model_id me/small_owt
    python -m electra.hub output/small_owt --hub_model_id me/small_owt --revision v1 --private

The discriminator becomes the repository `<id>-discriminator`, the generator `<id>-generator`; `AutoModel` opens
each by its name. The joint network of the checkpoints is never uploaded: transformers has no class for it.
"""

import logging
import time
from pathlib import Path

import httpx
from huggingface_hub import HfApi, ModelCardData
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled

from electra.console import setup_logging
from electra.errors import Parser, UserError, run_script
from electra.files import write_file

logger = logging.getLogger(__name__)

NETWORKS = ("discriminator", "generator")
SECONDS_UNTIL_RETRY = 5.0


def write_card(path: Path, data: ModelCardData, text: str) -> None:
    """Write a model card atomically: the metadata that the Hub reads, then the text."""
    write_file(f"---\n{data.to_yaml()}\n---\n{text}".encode(errors="replace"), path)


def push_run(
    run: Path,
    hub_model_id: str,
    *,
    token: str | None = None,
    private: bool | None = None,
    revision: str | None = None,
    with_checkpoints: bool = False,
) -> list[str]:
    """Upload the exported networks of a run, each to a repository of its own.

    Args:
        hub_model_id: `name` or `owner/name`, without the network's suffix.
        revision: branch of the repositories; created if it does not exist. Not given: main.
        with_checkpoints: also upload the folders checkpoint-N, into the discriminator's repository.
    Returns:
        the addresses of the repositories.
    Raises:
        UserError: no exported network in the folder, a wrong name or token, or no network twice in a row.
    """
    networks = [run / name for name in NETWORKS if (run / name / "config.json").is_file()]
    if not networks:
        raise UserError(f"{run} has no discriminator/ or generator/; name the folder of a finished pre-training run")
    api = HfApi(token=token)
    again = f"electra-push {run} --hub_model_id {hub_model_id}"
    addresses = []
    for folder in networks:
        ignored = ["*.unfinished", "*.lock"]
        uploads = [(folder, ".")]
        if with_checkpoints and folder.name == "discriminator":
            uploads += [(checkpoint, checkpoint.name) for checkpoint in sorted(run.glob("checkpoint-*"))]
        for attempt in (1, 2):
            try:
                repository = api.create_repo(f"{hub_model_id}-{folder.name}", private=private, exist_ok=True).repo_id
                if revision is not None:
                    api.create_branch(repository, branch=revision, exist_ok=True)
                for source, target in uploads:
                    api.upload_folder(
                        repo_id=repository,
                        folder_path=source,
                        path_in_repo=target,
                        revision=revision,
                        ignore_patterns=ignored,
                        commit_message=f"{folder.name} of {run.name}",
                    )
                break
            except OfflineModeIsEnabled as error:
                raise UserError(f"HF_HUB_OFFLINE is set; unset it and run {again}") from error
            except (HFValidationError, ValueError) as error:
                raise UserError(f"--hub_model_id {hub_model_id} is not possible: {error}") from error
            except HfHubHTTPError as error:  # the Hub's answer, such as a token without the right to write
                if attempt == 2 or error.response.status_code < 500:
                    raise UserError(f"the Hub refused {hub_model_id}: {error}; then run {again}") from error
            except (httpx.HTTPError, OSError) as error:
                if attempt == 2:
                    raise UserError(f"the upload of {folder} failed: {error}; retry with {again}") from error
            logger.warning("the upload of %s was interrupted; trying once more", folder)
            time.sleep(SECONDS_UNTIL_RETRY)
        addresses.append(f"{api.endpoint}/{repository}")
        logger.info("%s uploaded to %s", folder.name, addresses[-1])
    return addresses


def main(argv: list[str] | None = None) -> None:
    setup_logging()
    parser = Parser(prog="electra-push", description="Upload the networks of a finished run to the Hugging Face Hub.")
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a run of run_pretraining.py")
    parser.add_argument("--hub_model_id", help="name or owner/name of the repositories; default: the folder's name")
    parser.add_argument("--hub_token", help="default: the token of `hf auth login` or HF_TOKEN")
    parser.add_argument("--private", action="store_true", help="create private repositories")
    parser.add_argument("--revision", help="branch to upload to; default: main")
    parser.add_argument("--with_checkpoints", action="store_true", help="upload the folders checkpoint-N as well")
    args = parser.parse_args(argv)
    push_run(
        args.run,
        args.hub_model_id or args.run.resolve().name,
        token=args.hub_token,
        private=args.private or None,
        revision=args.revision,
        with_checkpoints=args.with_checkpoints,
    )


if __name__ == "__main__":
    run_script(main)
