"""Upload of a finished run, or of fine-tuned models, to the Hugging Face Hub.

The discriminator of a run becomes the repository `<id>-discriminator`, the generator `<id>-generator`; `AutoModel`
opens each by its name. The joint network of the checkpoints is never uploaded: only this package has a class for it. A
fine-tuned model becomes the repository `<id>`; of several in an evaluation, each becomes `<id>-<task>`. Its scores are
in its card and in `.eval_results/`. On the Hub, a card opens the model by the name of its repository.
"""

import json
import logging
import re
from collections.abc import Sequence
from pathlib import Path

from huggingface_hub import CommitOperationAdd, HfApi

from electra.base.files import CARD, RESULT_NAME, saved_models
from electra.core.errors import UserError

logger = logging.getLogger(__name__)

_UPLOADED = re.compile(
    r"README\.md|manifest\.json|result\.json|(generation_)?config\.json"
    r"|model(-\d+-of-\d+)?\.safetensors|model\.safetensors\.index\.json"
    r"|(tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab)\.json|(vocab|merges)\.txt|chat_template\.jinja"
    r"|(spiece|spm|sentencepiece\.bpe|tokenizer)\.model|\.eval_results/[^/]+\.yaml"
)
"""The files that an export writes, as paths in the folder of a model; no others are uploaded."""
_OPENED = re.compile(r'(?<=from_pretrained\(")[^"\n]*(?="\))')
"""The folder that a card's example code opens."""


def push_run(
    run: Path,
    hub_model_id: str,
    *,
    token: str | None,
    private: bool | None,
    scores: Sequence[Path] = (),
) -> None:
    """Upload the exported networks of a run, or the fine-tuned models in a folder, each to a repository of its own.

    Args:
        run: folder of a finished run, of a fine-tuned model, or of an evaluation with saved models.
        hub_model_id: `name` or `owner/name`, without the network's or the task's suffix.
        token: token of the Hub; None for that with which this machine is logged in.
        private: whether new repositories are private; None for the default of the Hub.
        scores: folders of evaluations whose scores are uploaded with the first network or model.
    Raises:
        UserError: there is no network, a fine-tuned model has no card, or an upload fails.
    """
    api = HfApi(token=token)
    added_files = [path for folder in scores for path in scores_in(folder)]
    for folder, name in repositories(run, hub_model_id).items():
        try:
            repository = api.create_repo(name, private=private, exist_ok=True).repo_id
            api.create_commit(
                repository,
                operations(folder, repository, added_files),
                commit_message=f"{folder.name} of {run.resolve().name}",
            )
        except Exception as error:  # the client raises its own errors and those of its HTTP library
            raise UserError(f"the upload of {folder} failed: {error}; run the same command again") from error
        logger.info("%s uploaded to %s/%s", folder.name, api.endpoint, repository)
        added_files = []


def scores_in(folder: Path) -> list[Path]:
    """Return the files in an evaluation's `.eval_results/`, scores that the Hub reads.

    Raises:
        UserError: there is none.
    """
    paths = sorted(folder.glob(".eval_results/*.yaml"))
    if not paths:
        raise UserError(
            f"{folder} has no .eval_results/: name the folder of an evaluation on all rows of a data set of the Hub"
        )
    return paths


def repositories(run: Path, hub_model_id: str) -> dict[Path, str]:
    """Return the folders to upload, each with the id of its repository; arguments and errors as in `push_run`."""
    networks = [run / name for name in ("discriminator", "generator")]
    networks = [folder for folder in networks if (folder / "config.json").is_file()]
    if networks:
        return {folder: f"{hub_model_id}-{folder.name}" for folder in networks}
    models = saved_models(run)
    if not models:
        raise UserError(
            f"{run} has no discriminator/ or generator/, and no model that --save_model saved; name the folder of a "
            "finished pre-training run, or of a fine-tuned model"
        )
    for folder in models:
        if not (folder / CARD).is_file():
            raise UserError(f"{folder} has no {CARD}: its evaluation has not ended; run its command again")
    if len(models) == 1:
        return {models[0]: hub_model_id}
    return {folder: f"{hub_model_id}-{folder.name}" for folder in models}


def operations(folder: Path, repository: str, scores: Sequence[Path]) -> list[CommitOperationAdd]:
    """Return the operations of a commit that add the files of a model, and files of scores.

    The card's example opens `repository`, and the result names no path of this machine.
    """
    changed = {}
    card = folder / CARD
    if card.is_file():
        changed[CARD] = _OPENED.sub(repository, card.read_text(encoding="utf-8")).encode()
    result = folder / RESULT_NAME
    if result.is_file():
        values = json.loads(result.read_text(encoding="utf-8"))
        if Path(values["model"]).is_absolute():
            values["model"] = Path(values["model"]).name
        changed[RESULT_NAME] = json.dumps(values).encode()
    files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    left_out = [name for name in files if not _UPLOADED.fullmatch(name)]
    if left_out:
        logger.warning("%s: not uploaded, because no export writes such files: %s", folder, ", ".join(left_out))
    files = {name: path for name, path in files.items() if name not in left_out}
    files |= {f".eval_results/{path.name}": path for path in scores}
    return [CommitOperationAdd(name, changed.get(name) or str(path)) for name, path in files.items()]
