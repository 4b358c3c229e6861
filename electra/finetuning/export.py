"""Fine-tuned models as Hugging Face folders (--save_model), with the same logits.

models/TASK/         the seed with the best headline in results.jsonl so far (--save_model best)
models/TASK-SEED/    every seed (--save_model all)

A folder is written as a whole before the line of its run. A missing one is restored by running its seed again.

Each class of transformers has its own head: one linear layer, or two with an activation between them. Our layers are
copied if the numbers of layers agree. One layer is written as two with pairs of units, w and -w, since f(z) - f(-z) is
z for GELU, ReLU and SiLU, and 2 z for the tanh of a small z. Whether the class then computes the same function is not
looked up in a table of architectures, but tried on random tokens.
"""

import copy
import json
import logging
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import EvalResult, ModelCardData
from torch import Tensor, nn
from torch.nn.functional import gelu
from transformers import (
    AutoModelForMultipleChoice,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    PreTrainedModel,
)

from electra.finetuning.evaluation import model_name
from electra.finetuning.task import TaskAdapter
from electra.io.console import shown_command
from electra.io.errors import UserError
from electra.io.files import expand, may_be_hub_id, replace_folder, write_json
from electra.model.pretrained import silent_transformers
from electra.options import as_flags
from electra.report.blocks import Table
from electra.report.card import Card, write_card
from electra.report.evaluation import percent
from electra.report.results import Result

logger = logging.getLogger(__name__)

FOLDER_NAME = "models"
RESULT_NAME = "result.json"
"""The line of results.jsonl of the saved run."""
PAIRS = ((1.0, 1.0), (2.0**-13, 2.0))
"""Scale of z, and (f(z) - f(-z)) / z: for GELU and the like, and for tanh, whose relative error there is z^2 / 3."""
TOLERANCE = 1e-3
"""Maximum difference of the logits, relative to the largest."""
METRIC_TYPES = {
    "mcc": "matthews_correlation", "pearson": "pearsonr", "spearman": "spearmanr",
    "accuracy_matched": "accuracy", "accuracy_mismatched": "accuracy",
}  # fmt: skip
"""Names of metrics on the Hub where they differ from ours."""
# ---- one model


def export_model(
    auto_class: Any, encoder: PreTrainedModel, layers: Sequence[nn.Linear], labels: Sequence[str] | None, **config: Any
) -> tuple[PreTrainedModel | None, float]:
    """The model of transformers in float32, and the relative difference of its logits; None if there is no class.

    Args:
        layers: linear layers of our head, with GELU in between, from hidden states (..., D) to logits (..., C).
        labels: names of the C classes; None if they have none.
        config: additional values of the configuration.
    """
    values = copy.deepcopy(encoder.config)
    values.num_labels = len(labels) if labels is not None else 2
    if labels is not None:
        values.id2label = dict(enumerate(labels))
        values.label2id = {label: number for number, label in enumerate(labels)}
    for name, value in config.items():
        setattr(values, name, value)
    layers = [copy.deepcopy(layer).float().cpu() for layer in layers]
    weights = {name: value.float().cpu() for name, value in encoder.state_dict().items() if "pooler" not in name}
    with torch.random.fork_rng(devices=[]):
        try:
            model = auto_class.from_config(values, dtype=torch.float32).eval()
        except ValueError:  # transformers has no such class for this architecture
            return None, torch.inf
    loaded = model.base_model.load_state_dict(weights, strict=False)
    if loaded.unexpected_keys or any("pooler" not in key for key in loaded.missing_keys):
        return None, torch.inf
    places = [
        module
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear)
        and f"{name}.weight".removeprefix(f"{model.base_model_prefix}.") not in weights
    ]
    if len(places) == len(layers):
        for place, layer in zip(places, layers, strict=True):
            _copy_into(place, layer.weight, layer.bias)
        return model, _difference(model, auto_class, layers)
    if len(places) != 2 or 2 * len(layers[0].weight) > len(places[0].weight):
        return None, torch.inf
    found = []
    for scale, factor in PAIRS:
        weight, bias = scale * layers[0].weight, scale * layers[0].bias
        _copy_into(places[0], torch.cat([weight, -weight]), torch.cat([bias, -bias]))
        inverse = torch.eye(len(weight)) / (scale * factor)
        _copy_into(places[1], torch.cat([inverse, -inverse], dim=1), torch.zeros(len(weight)))
        found.append((_difference(model, auto_class, layers), copy.deepcopy(model.state_dict())))
    difference, state = min(found, key=lambda pair: pair[0])
    model.load_state_dict(state)
    return model, difference


def can_export(auto_class: Any, encoder: PreTrainedModel, num_layers: int) -> bool:
    """Whether transformers has a class that computes a head of one or two layers on this encoder."""
    width, outputs = encoder.config.hidden_size, 1 if auto_class is AutoModelForMultipleChoice else 2
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        layers = [*(nn.Linear(width, width) for _ in range(num_layers - 1)), nn.Linear(width, outputs)]
        for parameter in nn.ModuleList(layers).parameters():
            parameter.mul_(4)  # out of the range in which every activation is linear
    return export_model(auto_class, encoder, layers, None)[1] <= TOLERANCE


def _copy_into(place: nn.Linear, weight: Tensor, bias: Tensor) -> None:
    """Write weights to the upper left of a layer and zeros elsewhere."""
    with torch.no_grad():
        for target, source in ((place.weight, weight), (place.bias, bias)):
            if target is not None:  # if a bias is missing, the logits differ and the class is refused
                target.zero_()
                target[tuple(slice(size) for size in source.shape)] = source


def _difference(model: PreTrainedModel, auto_class: Any, layers: Sequence[nn.Linear]) -> float:
    """Maximum difference between its logits and those of our layers on its hidden states, relative to the largest."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(0, model.get_input_embeddings().num_embeddings, (2, 8), generator=generator)
    mask = torch.ones_like(ids)
    mask[1, 5:] = 0
    is_choice = auto_class is AutoModelForMultipleChoice
    with torch.no_grad():
        ours = layers[0](model.base_model(input_ids=ids, attention_mask=mask)[0])
        for layer in layers[1:]:
            ours = layer(gelu(ours))
        if is_choice:
            ids, mask = ids[None], mask[None]  # two choices of one question
        output = model(input_ids=ids, attention_mask=mask)
    if auto_class is AutoModelForQuestionAnswering:
        theirs = torch.stack([output.start_logits, output.end_logits], dim=-1)
    else:
        theirs = output.logits.T if is_choice else output.logits
    if is_choice or auto_class is AutoModelForSequenceClassification:
        ours = ours[:, 0]
    return float((theirs - ours).abs().max() / ours.abs().max()) if theirs.shape == ours.shape else torch.inf


# ---- the models of an evaluation


def check_can_save(adapter: TaskAdapter, heads: Iterable[str]) -> None:
    """Refuse --save_model if transformers has no class that computes one of the heads on this encoder."""
    if adapter.args.options.save_model == "none":
        return
    encoder = adapter.encoder.model
    possible = {
        head for head, layers in adapter.saved_heads.items() if can_export(adapter.auto_model, encoder, layers)
    }
    for head in sorted(set(heads) - possible):
        hint = f"choose --head {' or '.join(sorted(possible))}" if possible else "leave --save_model out"
        raise UserError(
            f"--save_model: transformers has no class for the head {head} on {encoder.config.model_type}; {hint}"
        )


def _is_wanted(adapter: TaskAdapter, task: str, seed: int, *more: Result) -> bool:
    which = adapter.args.options.save_model
    return which == "all" or (which == "best" and adapter.best_first(task, *more)[:1] == [seed])


def is_saved(adapter: TaskAdapter, task: str, seed: int) -> bool:
    """Whether the model of a finished run is there or not wanted."""
    return not _is_wanted(adapter, task, seed) or _read_result(_folder(adapter, task, seed)).get("seed") == seed


def save_model(adapter: TaskAdapter, result: Result, model: Any) -> None:
    """Save the model of a run if it is wanted; on the main process, before the result is written."""
    if not _is_wanted(adapter, result.task, result.seed, result):
        return
    folder = _folder(adapter, result.task, result.seed)
    unfinished = folder.with_name(f".{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # left by a killed command
    encoder = getattr(model, "encoder", adapter.encoder.model)  # a frozen one is not in the trained model
    labels, config = adapter.labels(result.task), adapter.config(result.task)
    exported, _ = export_model(adapter.auto_model, encoder, adapter.linear_layers(model), labels, **config)
    assert exported is not None  # checked before training
    with silent_transformers():
        exported.save_pretrained(unfinished)
    adapter.encoder.tokenizer.save_pretrained(unfinished)
    kept = adapter.evaluation.find(result.task, result.seed) or result
    write_json(kept._asdict(), unfinished / RESULT_NAME)
    replace_folder(unfinished, folder)


def describe_models(adapter: TaskAdapter, tasks: Sequence[str]) -> None:
    """Write the cards of the saved models, now that all seeds are known, and log where they are."""
    for folder in dict.fromkeys(_folder(adapter, task, seed) for task in tasks for seed in adapter.args.seeds):
        if result := _read_result(folder):
            describe_model(adapter, folder, result)
            logger.info("model          %s", folder)
    if not (adapter.evaluation.folder / FOLDER_NAME).is_dir():
        logger.info("The fine-tuned weights were not saved; --save_model saves them.")


def describe_model(adapter: TaskAdapter, folder: Path, result: Mapping[str, Any]) -> None:
    """Write the card of a saved model; `result` is the line of its run in results.jsonl."""
    name, model, settings = result["task"], result["model"], result["settings"]
    (task,) = (run.tasks[name] for run in adapter.reporting.summarize(adapter.evaluation.results, ""))
    hub_id, hub_config = (None, None) if task.other_rows else adapter.hub_dataset(name)
    scores = [
        EvalResult(
            task_type=adapter.pipeline,
            dataset_type=hub_id or name,
            dataset_name=task.task.title,
            dataset_config=hub_config,
            dataset_split="test" if metric.startswith("test_") else "validation",
            metric_type=METRIC_TYPES.get(metric, metric.removeprefix("test_")),
            metric_name=metric,
            metric_value=round(value, 6),
        )
        for metric, value in result["metrics"].items()
        if value is not None
    ]
    is_on_hub = may_be_hub_id(model) and not expand(model).exists()
    data = ModelCardData(
        library_name="transformers",
        pipeline_tag=adapter.pipeline,
        base_model=model if result["start"] != "scratch" and is_on_hub else None,
        datasets=hub_id and [hub_id],
        metrics=sorted({score.metric_type for score in scores}),
        model_name=f"{model_name(model)}-{name}" if scores else None,
        eval_results=scores or None,
    )
    rows = []
    for metric, spread in task.metrics.items():
        values = (spread.values[result["seed"]], spread.median, spread.std)
        rows.append([metric, *map(percent, values)])
    training = {"source network": model, "start": result["start"], "seed": result["seed"], **settings}
    card = Card(
        title=f"{model}, fine-tuned on {task.task.title}",
        about=f"Inputs are truncated to {settings['max_length']} tokens. {adapter.note(name)}",
        auto_class=adapter.auto_model.__name__,
        folder=str(folder),
        scores_title="Scores on the development set, percent",
        scores=Table(["metric", "this model", f"median of {len(task.results)} seeds", "std"], rows),
        training=[(option, str(value)) for option, value in training.items()],
        command=shown_command(adapter.script, as_flags(adapter.args.record)),
    )
    write_card(folder / "README.md", data, card)


def _folder(adapter: TaskAdapter, task: str, seed: int) -> Path:
    name = f"{task}-{seed}" if adapter.args.options.save_model == "all" else task
    return adapter.evaluation.folder / FOLDER_NAME / name


def _read_result(folder: Path) -> dict[str, Any]:
    """The result of the run whose model is in a folder; empty if there is none."""
    try:
        values: dict[str, Any] = json.loads((folder / RESULT_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return values
