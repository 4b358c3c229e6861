"""What must not change, and what lies on users' disks: made with one commit, opened and continued with another one.

    python -m benchmarks.pins --work /tmp/pins                              # the commit of reference, the working tree
    python -m benchmarks.pins BEFORE AFTER --work FOLDER --only resume caches

Each pin is a function whose docstring says what AFTER does with what BEFORE made. Networks are tiny, and commands have
one thread. The table at the end names each pin, and what differs; exit code 1: something does. Numbers are compared to
the last bit, so both commits run on one machine. An idle core takes ten minutes.

What is meant to differ is in `EXPLAINED`, with its reason. An option that is gone must be in `REMOVED` of
electra/base/errors.py, with what a user does instead. Whoever moves a function that is named here adds its new place.
"""

import argparse
import dataclasses
import json
import random
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from benchmarks.compare_commits import FINE_TUNING, OF_CLOCK, PRETRAINING, checkout_of, write_data
from benchmarks.sides import Side, SideError, module_of

REFERENCE = "1a1def8"
"""The commit whose files, numbers and options are kept."""
ROOT = Path(__file__).parents[1]
SHOWN = 8
"""Differences of a pin that are printed, at most."""
TWINS = 40
"""Documents of the corpus with twins, without the twins."""

EXPLAINED = {
    "num_train_epochs: 3.0 became None": "an open default, fitted to 250 steps by classify with narrow encoders",
    "tiny_stable.yaml: lr_scheduler_kwargs ": "the decay is --decay_steps 0.1, which is the same 1,200 steps",
    "tiny_stable.yaml: record lr_scheduler_kwargs": "the decay is --decay_steps 0.1, which is the same 1,200 steps",
    "was refused, is read: ": "an option without effect is warned of",
    "was read, is refused: --objective=mlm ": "the file's share of [MASK] and mlm's of random tokens are more than 1",
    "was read, is refused: --objective=two_stage ": "the file shares weights, which would change the frozen generator",
    "--objective=causal lmtuners_albert_generator.yaml: record": "embedding_size has an effect",
    "--discriminator_type=modernbert paper_layers_cpu.yaml: record": "embedding_size has no effect",
    "_mask_token: None became": "generators are judged at [MASK], where they cannot copy",
    "metrics.json frequencies ": "token frequencies are compared with the generator at [MASK]",
    "record num_seeds: None became 5": "the default of the user's own data is one run, so files of papers name five",
    "electra pretrain --cased=1: ": "refused with --lowercase false, in a file, too: else it would be lower-cased",
    "electra tokenizer --cased=1: ": "the same",
    "electra cache --cased=1: ": "the same",
    "electra detect --validation_file=1: ": "other verbs have an option of this name, so REMOVED cannot refuse it",
    "classify/config.yaml: head: 'hf' became None": "an open default like learning_rate: hf, but for narrow encoders "
    "hf_mean; results record the head, and an evaluation that was begun keeps hf",
    "choose/config.yaml: head: 'hf' became None": "an open default, which is always hf in this verb",
}
"""Part of a line of differences that is meant -> why; such lines are printed, and do not count."""

Differences = Iterator[str]
"""Type of what differs: an iterator of lines."""

# ---- data


def write_more_data(folder: Path) -> None:
    """Write what `write_data` does not: texts with labels, minimal pairs, twins of documents, a sweep."""
    source = random.Random(1)
    corpus = (folder / "corpus.txt").read_text(encoding="utf-8").split("\n\n")
    words = sorted(set(" ".join(corpus).split()))

    def text(length: int) -> str:
        return " ".join(source.choices(words, k=length))

    def write_rows(name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")

    for name, count in (("train", 48), ("dev", 24)):
        rows = [f"{words[row % 2]} {text(5)},{('bad', 'good')[row % 2]}" for row in range(count)]
        (folder / f"{name}.csv").write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    write_rows("pairs.jsonl", [{"sentence_good": text(6), "sentence_bad": text(6), "UID": "order"} for _ in range(30)])
    write_rows("odd.jsonl", [{"text": text(12), "label": row % 2} for row in range(30)])
    write_rows("texts.jsonl", [{"text": text(8)} for _ in range(20)])
    write_rows("sentences.jsonl", [{"tokens": text(8).split()} for _ in range(20)])
    questions = [{"question": text(5), "choices": [text(3) for _ in range(3)]} for _ in range(12)]
    write_rows("questions.jsonl", questions)
    contexts = [{"id": str(row), "question": text(5), "context": text(30)} for row in range(12)]
    write_rows("contexts.jsonl", contexts)

    # Documents that are equal but for white space, some of it no spaces of ASCII, share a side of the split.
    single = [f"{text(source.randint(3, 30))}.\n{text(9)}, Ärger 東京 \N{GRINNING FACE}" for _ in range(TWINS)]
    around = [" {}", "{}\n", "\t{} ", "\N{NO-BREAK SPACE}{}", "{}\N{IDEOGRAPHIC SPACE}\n", "\r\n{}", "{}"]
    twins = [around[row % len(around)].format(source.choice(single)) for row in range(2 * TWINS)]
    inside = [document.replace(" ", "  ", 1) for document in single[:5]]
    documents = [*single, *twins, *inside, *map(str.upper, single[:5]), " ", "\n\t"]
    source.shuffle(documents)
    write_rows("twins.jsonl", [{"text": document} for document in documents])

    entries: dict[str, Any] = {**PRETRAINING, **paths(folder), "max_steps": 4, "report_to": "none"}
    parameters = {name: {"value": value} for name, value in entries.items() if value is not None}
    sweep = {
        "program": "run_pretraining.py",
        "method": "grid",
        "metric": {"name": "eval/generator_loss", "goal": "minimize"},
        "parameters": {**parameters, "learning_rate": {"values": [1e-3, 2e-3]}},
    }
    (folder / "sweep.yaml").write_text(json.dumps(sweep, default=str), encoding="utf-8")  # which is YAML, too


# ---- what is made, once for each side


def paths(data: Path) -> dict[str, Any]:
    """Return the options of a run that name files, absolute."""
    return {
        "train_file": data / "corpus.txt",
        "validation_file": data / "held_out.txt",
        "tokenizer_path": data / "tokenizer",
        "cache_dir": data / "cache",
    }


LENGTH = {"max_steps": 24, "eval_steps": 12, "save_steps": 8, "logging_steps": 1, "save_total_limit": 0}
"""Options of every run beside those of `PRETRAINING`."""
KINDS: dict[str, dict[str, Any]] = {
    "windows": {},
    "packed": {"segment_policy": "packed"},
    "google": {"segment_policy": "google", "dataloader_num_workers": 2},
    "pairs": {"segment_policy": "pairs", "gradient_accumulation_steps": 2},
    "document": {"segment_policy": "document", "adam_bias_correction": "false", "product_schedule": "true"},
    "mlm": {"objective": "mlm", "generator_size": None},
    "two_stage": {"objective": "two_stage", "no_init_from_generator": True},
    "adversarial": {"objective": "adversarial", "dataloader_num_workers": 1},
    "modernbert": {"discriminator_type": "modernbert", "tie": "none", "embedding_size": None},
    "gdes": {"tie": "gdes", "weight_decay": 0.1},
    "stable": {"lr_scheduler_type": "warmup_stable_decay", "lr_scheduler_kwargs": '{"num_decay_steps": 9}'},
    "bf16": {"bf16": "true"},
    "phase": {"init_checkpoint": "windows", "tokenizer_path": None, "max_length": 48, "warmup_steps": 0},
}
"""Name of a run -> options that differ. `phase` starts from the last checkpoint of `windows`."""
ROUNDED_OTHERWISE = ("bf16",)
"""Runs whose steps AFTER rounds otherwise: attention on a CPU takes the gradient of its softmax from bfloat16."""


def options_of(kind: str, data: Path, side: Side) -> dict[str, Any]:
    """Return the options of a run of `KINDS` that a side makes, with the folder of the side's runs."""
    values = {**PRETRAINING, **paths(data), **LENGTH, **KINDS[kind], "output_dir": side.folder / "output"}
    if "init_checkpoint" in values:
        values["init_checkpoint"] = run_of(side, "windows", data) / "checkpoint-24"
        sizes = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "embedding_size")
        values |= dict.fromkeys((*sizes, "max_position_embeddings", "generator_size"))
    return values


@cache
def run_of(side: Side, kind: str, data: Path) -> Path:
    """Return the folder of an undisturbed run of `KINDS` that a side makes, once."""
    options = options_of(kind, data, side)
    side.command("pretrain", **options, experiment_name=kind)
    return side.folder / "output" / kind


TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "glue": ("glue", {"tasks": ["cola", "stsb", "rte"]}),
    "demo": ("glue", {"tasks": ["demo"], "num_train_epochs": 0.2, "num_seeds": 1}),
    "classify": ("classify", {"train_file": "train.csv", "validation_file": "dev.csv", "num_seeds": 3, "head": "hf",
                              "learning_rate": 3e-4, "layerwise_lr_decay": 0.8, "num_train_epochs": 3}),
    "tag": ("tag", {"train_file": "tags.txt", "validation_file": "tags.txt", "max_length": 24,
                    "learning_rate": 3e-4, "layerwise_lr_decay": 0.8}),
    "squad": ("squad", {"train_file": "squad.json", "validation_file": "squad.json", "max_length": 32,
                        "doc_stride": 8, "max_query_length": 8}),
    "choose": ("choose", {"train_file": "choice.jsonl", "validation_file": "choice.jsonl"}),
}  # fmt: skip
"""Evaluations: verb and options; of each but those of GLUE the best model is saved. Classify and tag have had other
defaults of head, rate, decay and epochs."""
ANSWERED = {
    "classify": "texts.jsonl",
    "tag": "sentences.jsonl",
    "squad": "contexts.jsonl",
    "choose": "questions.jsonl",
}
"""Rows that a saved model answers, by the name of its evaluation."""


def evaluation_options(name: str, data: Path, network: Path, side: Side) -> dict[str, Any]:
    """Return the options of an evaluation of `TASKS` that a side makes, with the folder of the side's evaluations."""
    options = {**FINE_TUNING, "bf16": "false", **TASKS[name][1]}
    files: dict[str, Any] = {key: data / options[key] for key in ("train_file", "validation_file") if key in options}
    of_task = {"save_model": True} if name in ANSWERED else {"glue_dir": data / "glue"}
    return {**options, **files, **of_task, "pretrain_path": network, "output_dir": side.folder / "evaluations"}


@cache
def evaluation_of(side: Side, name: str, data: Path, network: Path) -> Path:
    """Return the folder of an undisturbed evaluation of `TASKS` that a side makes, once."""
    options = evaluation_options(name, data, network, side)
    side.command(TASKS[name][0], **options, experiment_name=name)
    return side.folder / "evaluations" / name


# ---- comparing


def different_values(name: str, before: Any, after: Any) -> Differences:
    """Yield where two values differ, to the last bit: mappings, lists, tensors, arrays, numbers and text.

    Numbers that a clock decides, such as runtimes, are left out.
    """
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in [*before, *(key for key in after if key not in before)]:
            if not OF_CLOCK.search(str(key)):
                yield from different_values(f"{name} {key}", before.get(key), after.get(key))
    elif isinstance(before, list | tuple) and isinstance(after, list | tuple) and len(before) == len(after):
        for number, (first, second) in enumerate(zip(before, after, strict=True)):
            yield from different_values(f"{name} {number}", first, second)
    elif isinstance(before, torch.Tensor) and isinstance(after, torch.Tensor):
        if before.dtype != after.dtype or not torch.equal(before, after):
            yield f"{name}: tensors differ"
    elif isinstance(before, np.ndarray) and isinstance(after, np.ndarray):
        if before.dtype != after.dtype or not np.array_equal(before, after, equal_nan=before.dtype.kind == "f"):
            yield f"{name}: arrays differ"
    elif before != after and not (before != before and after != after):  # nan
        yield f"{name}: {before!r:.80} became {after!r:.80}"


def content_of(path: Path) -> Any:
    """Return the content of a file by its ending, for `different_values`."""
    if path.suffix == ".safetensors":
        return load_file(path)
    if path.suffix == ".pt":
        return torch.load(path, weights_only=True)
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)
    if path.suffix == ".json":
        return json.loads(path.read_text(encoding="utf-8"))
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return path.read_bytes()


def different_files(before: Path, after: Path, names: Sequence[str]) -> Differences:
    """Yield where files of these names, which may have stars, differ in two folders."""
    for name in names:
        there = {path.relative_to(before) for path in before.glob(name)}
        if not there:
            yield f"{before.name}: {name} is missing"
        for path in sorted(there | {path.relative_to(after) for path in after.glob(name)}):
            if not ((before / path).is_file() and (after / path).is_file()):
                yield f"{after.name}/{path}: {'new' if (after / path).is_file() else 'missing'}"
            else:
                contents = (content_of(folder / path) for folder in (before, after))
                yield from different_values(f"{after.name}/{path}", *contents)


STATE = ("model.safetensors", "optimizer.pt", "scheduler.pt")
"""Files of a checkpoint that are equal if the training is."""
OF_RUN = (
    *(f"checkpoint-24/{name}" for name in STATE),
    *("discriminator/model.safetensors", "discriminator/config.json", "discriminator/tokenizer.json"),
    "samples.json",
)
"""Files of a run that are equal if the run is."""


def different_runs(before: Path, after: Path) -> Differences:
    """Yield where two runs differ: state, exported networks, samples, held-out metrics, every logged number."""
    generator = ["generator/model.safetensors"] if (before / "generator").is_dir() else []
    yield from different_files(before, after, [*OF_RUN, *generator])
    for name, part in (("metrics.json", "held_out"), ("trainer_state.json", "log_history")):
        contents = (content_of(run / name)[part] for run in (before, after))
        yield from different_values(f"{after.name}/{name}", *contents)


def different_results(before: Path, after: Path) -> Differences:
    """Yield where two evaluations differ: results, logits. The later may have more fields, metrics and settings."""
    there, here = (
        {f"{result['task']} {result['seed']}": result for result in content_of(folder / "results.jsonl")}
        for folder in (before, after)
    )
    for run in there.keys() & here.keys():
        for group in ("metrics", "settings"):
            here[run][group] = {name: value for name, value in here[run][group].items() if name in there[run][group]}
        here[run] = {name: value for name, value in here[run].items() if name in there[run]}
    yield from different_values(f"{after.name}/results.jsonl", there, here)
    yield from different_files(before, after, ["predictions/*.npz"])


def stamps(folder: Path) -> dict[str, tuple[int, int]]:
    """Return relative path -> modification time (ns) and inode of each file in a folder, without locks.

    One of both changes if a file is written again.
    """
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"]
    return {str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.stat().st_ino) for path in files}


# ---- the pins

Pin = Callable[[Side, Side, Path], Differences]
"""Type of a pin: a function of BEFORE, AFTER and the folder of the data that yields what differs."""
PINS: dict[str, Pin] = {}
"""Name of a pin -> its function."""


def pin(function: Pin) -> Pin:
    """Add a function to `PINS`, and return it."""
    PINS[function.__name__] = function
    return function


@pin
def resume(before: Side, after: Side, data: Path) -> Differences:
    """Resume a run that BEFORE trained to some step and that was killed: it ends as an undisturbed one of BEFORE.

    Where AFTER rounds otherwise, it ends as an undisturbed one of BEFORE that AFTER continues from the same step.
    """
    for number, kind in enumerate(KINDS):
        whole = run_of(before, kind, data)
        name = f"{kind}-killed"
        options = options_of(kind, data, before) | {"experiment_name": name, "auto_resume": True}
        killed = before.folder / "output" / name
        before.kill((killed / "checkpoint-8").is_dir, "pretrain", **options)
        ways: list[dict[str, Any]] = [
            options,  # the same command again
            {"resume_from_checkpoint": killed},
            {"resume_from_checkpoint": killed / "checkpoint-8"},
        ]
        try:
            after.command("pretrain", **ways[number % len(ways)])
        except SideError as error:
            yield f"{name}: {error}"
            continue
        if kind in ROUNDED_OTHERWISE:
            whole = continued_copy(whole, after)
        yield from different_runs(whole, killed)


def continued_copy(run: Path, after: Side) -> Path:
    """Copy a run as it was at step 8, and let a side continue the copy, whose folder is returned."""
    copy = run.with_name(f"{run.name}-continued")
    later = ("checkpoint-16", "checkpoint-24", "discriminator", "generator", "metrics.json", "report.*")
    shutil.copytree(run, copy, ignore=shutil.ignore_patterns(*later))
    after.command("pretrain", resume_from_checkpoint=copy / "checkpoint-8")
    return copy


@pin
def longer(before: Side, after: Side, data: Path) -> Differences:
    """Extend a finished run of BEFORE: it ends as one that BEFORE extends."""
    whole = run_of(before, "windows", data)
    extended = {}
    for side in (before, after):
        extended[side] = side.folder / "output" / "longer"
        shutil.copytree(whole, extended[side])
        options = options_of("windows", data, side) | {"experiment_name": "longer", "max_steps": 28}
        side.command("pretrain", **options, auto_resume=True)
    yield from different_files(extended[before], extended[after], [f"checkpoint-28/{name}" for name in STATE])


@pin
def caches(before: Side, after: Side, data: Path) -> Differences:
    """Open token caches of BEFORE, and write none of their files; split and tokens of a new cache are the same."""
    for algorithm in ("wordpiece", "byte_bpe", "unigram"):
        made = {}
        for side in (before, after):
            made[side] = side.folder / f"tokenizer-{algorithm}"
            words = {"lowercase": False} if algorithm == "byte_bpe" else {}
            side.command("tokenizer", train_file=data / "twins.jsonl", tokenizer_algorithm=algorithm, vocab_size=320,
                         output_dir=made[side], **words)  # fmt: skip
        if algorithm != "unigram":  # whose training is not deterministic
            yield from different_files(made[before], made[after], ["tokenizer.json"])

        def run(side: Side, name: str, cache: Path, tokenizer: Path = made[before]) -> Any:
            options = {**PRETRAINING, **paths(data), "max_steps": 1, "eval_strategy": "no", "eval_steps": None}
            options |= {"train_file": data / "twins.jsonl", "tokenizer_path": tokenizer, "cache_dir": cache,
                        "validation_file": None, "validation_fraction": 0.2, "test_fraction": 0.1}  # fmt: skip
            side.command("pretrain", **options, experiment_name=name)
            origin = content_of(side.folder / "output" / name / "checkpoint-1" / "origin.json")
            return {key: value for key, value in origin.items() if "text" in key or "documents" in key}

        folder = before.folder / f"cache-{algorithm}"
        split = run(before, algorithm, folder)
        written = stamps(folder)
        yield from different_values(f"{algorithm}, opened", split, run(after, algorithm, folder))
        yield from different_values(f"{algorithm}, files of the cache", written, stamps(folder))
        new = after.folder / f"cache-{algorithm}"
        yield from different_values(f"{algorithm}, new", split, run(after, f"{algorithm}-new", new))
        tokens = ("*/*.npy", "*/*/*.arrow", "*/cache.json")
        yield from different_files(folder, new, tokens)


@pin
def shards(before: Side, after: Side, data: Path) -> Differences:
    """Complete a cache of which jobs of BEFORE built two shards of three: it is the cache that BEFORE makes."""
    words: dict[str, Any] = {"train_file": data / "corpus.txt", "tokenizer_path": data / "tokenizer"}
    folders = {name: before.folder / f"shards-{name}" for name in ("whole", "begun")}
    for name, count in (("whole", 3), ("begun", 2)):
        for shard in range(count):
            before.command("cache", **words, cache_dir=folders[name], shard=f"{shard}/3")
    before.command("cache", **words, cache_dir=folders["whole"], merge=True)
    after.command("cache", **words, cache_dir=folders["begun"])
    yield from different_files(folders["whole"], folders["begun"], ["*/*.npy", "*/*/*.arrow", "*/cache.json"])


@pin
def exports(before: Side, after: Side, data: Path) -> Differences:
    """Open networks and checkpoints of BEFORE with AutoModel: logits and weights are the same."""
    for kind in ("windows", "mlm", "modernbert"):
        run = run_of(before, kind, data)
        folders = [path for path in (run / "discriminator", run / "generator", run / "checkpoint-24") if path.is_dir()]
        for folder in folders:
            logits = (side.call(logits_of, folder) for side in (before, after))
            yield from different_values(f"{kind}/{folder.name}", *logits)


def logits_of(folder: Path) -> list[np.ndarray]:
    """Return the outputs of a network, opened by transformers, on fixed ids (2, 12)."""
    from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM, AutoModelForPreTraining

    import electra

    _ = electra.ElectraForJointPretraining  # which registers the joint model
    if "checkpoint" in folder.name:
        return [tensor.numpy() for tensor in AutoModel.from_pretrained(folder).state_dict().values()]
    architectures = AutoConfig.from_pretrained(folder).architectures or []
    has_lm_head = any(name.endswith("MaskedLM") for name in architectures)
    is_electra = any(name.startswith("Electra") for name in architectures)
    classes: list[Any] = [AutoModel]
    if has_lm_head or is_electra:
        classes.append(AutoModelForMaskedLM if has_lm_head else AutoModelForPreTraining)
    ids = torch.arange(5, 29).reshape(2, 12)
    with torch.no_grad():
        return [made.from_pretrained(folder).eval()(input_ids=ids)[0].numpy() for made in classes]


@pin
def answers(before: Side, after: Side, data: Path) -> Differences:
    """Answer rows with models that BEFORE fine-tuned and saved: the answers are those of BEFORE."""
    network = run_of(before, "windows", data)
    for name, rows in ANSWERED.items():
        model = evaluation_of(before, name, data, network)
        files = {}
        for side in (before, after):
            files[side] = side.folder / f"{name}.jsonl"
            side.command("predict", model, data / rows, output_file=files[side])
        yield from different_values(name, *(content_of(files[side]) for side in (before, after)))


@pin
def evaluation(before: Side, after: Side, data: Path) -> Differences:
    """Finish an evaluation that was killed after two seeds of three: results and model are those of BEFORE."""
    network = run_of(before, "windows", data)
    whole = evaluation_of(before, "classify", data, network)
    options = evaluation_options("classify", data, network, before) | {"experiment_name": "killed"}
    killed = before.folder / "evaluations" / "killed"

    def has_two_results() -> bool:
        results = killed / "results.jsonl"
        return results.is_file() and results.read_text(encoding="utf-8").count("\n") >= 2

    before.kill(has_two_results, "classify", **options)
    done = stamps(killed / "predictions")
    after.command("classify", **options)
    yield from different_results(whole, killed)
    kept = {name: stamp for name, stamp in stamps(killed / "predictions").items() if name in done}
    yield from different_values("runs that were finished", done, kept)
    yield from different_files(whole, killed, ["models/*/model.safetensors"])


@pin
def sweep(before: Side, after: Side, data: Path) -> Differences:
    """Run a sweep: its points are those of BEFORE; a folder in which BEFORE was killed is refused, and stays."""
    folder = before.folder / "sweep"
    whole = before.folder / "sweep-whole"
    before.command("sweep", data / "sweep.yaml", folder=whole)
    before.kill(lambda: any(folder.glob("*learning_rate*.json")), "sweep", data / "sweep.yaml", folder=folder)
    made = stamps(folder)
    if (folder / "settings.yaml").is_file():  # of the time before optuna's storage
        after.command("sweep", data / "sweep.yaml", expect=2, folder=folder)
        yield from different_values("refused folder", made, stamps(folder))
        folder = before.folder / "sweep-anew"
    after.command("sweep", data / "sweep.yaml", folder=folder)
    yield from different_files(whole, folder, ["*learning_rate*/discriminator/model.safetensors"])


@pin
def recorded(before: Side, after: Side, data: Path) -> Differences:
    """Read the config.yaml that BEFORE recorded: it gives the same options, and the same run."""
    network = run_of(before, "windows", data)
    files = [("pretrain", run_of(before, kind, data) / "config.yaml") for kind in KINDS]
    files += [(TASKS[name][0], evaluation_of(before, name, data, network) / "config.yaml") for name in TASKS]
    for verb, file in files:
        values = (side.call(effective_options, verb, [f"--config={file}"]) for side in (before, after))
        yield from same_where_both(str(file.relative_to(before.folder)), *values)
    options: dict[str, Any] = {"config": network / "config.yaml", "output_dir": after.folder / "output"}
    after.command("pretrain", **options, experiment_name="recorded")
    yield from different_runs(network, after.folder / "output" / "recorded")


@pin
def removed(before: Side, after: Side, data: Path) -> Differences:
    """Refuse options and verbs of BEFORE that are gone, and say what replaces them; in a file, ignore such options."""
    reasons = after.call(removed_options)
    there, here = (side.call(options_of_verbs) for side in (before, after))
    gone = [(name, [name]) for name in there.keys() - here.keys()]
    gone += [(name, [verb, f"--{name}=1"]) for verb in there.keys() & here.keys() for name in there[verb] - here[verb]]
    for name, words in sorted(gone):
        if name not in reasons:
            yield f"electra {' '.join(words)}: gone, and not in REMOVED"
            continue
        said = after.command(*words, expect=2)
        if reasons[name] not in said:
            yield f"electra {' '.join(words)}: {said.strip()[-200:]}"
        if words[0] == "pretrain":
            file = after.folder / "removed.yaml"
            file.write_text(f"{name}: 1\n", encoding="utf-8")
            after.call(effective_options, "pretrain", [f"--config={file}", f"--train_file={data / 'corpus.txt'}"])


def removed_options() -> dict[str, str]:
    """Return removed option -> what a user does instead, as the commit of the process says."""
    return dict(getattr(module_of("electra.base.errors", "electra.io.errors"), "REMOVED", {}))


def options_of_verbs() -> dict[str, set[str]]:
    """Return verb -> names of its options, from its help."""
    from contextlib import redirect_stdout, suppress
    from io import StringIO

    options = {}
    for verb, row in module_of("electra.tools.commands", "electra.commands").VERBS.items():
        text = StringIO()
        sys.argv = [f"electra {verb}", "--help"]
        with redirect_stdout(text), suppress(SystemExit):
            import_module(row.module).main()
        options[verb] = set(re.findall(r"^\s+(?:-\w, )?--(\w+)", text.getvalue(), re.MULTILINE)) - {"help"}
    return options


PARSERS = {
    "pretrain": "electra.pretraining.options:parse_pretraining_arguments",
    "glue": "electra.tasks.glue.task:parse_glue_arguments",
    "classify": "electra.tasks.classify.task:parse_classify_arguments",
    "tag": "electra.tasks.tagging.task:parse_tagging_arguments",
    "squad": "electra.tasks.squad.task:parse_squad_arguments",
    "choose": "electra.tasks.multiple_choice.task:parse_choice_arguments",
}
"""Verb -> module and function that parses its command line, in every commit since the one of reference."""


def effective_options(verb: str, words: Sequence[str]) -> dict[str, Any]:
    """Return the values of all options of a command line, and under `record` what config.yaml would have of them."""
    module, _, name = PARSERS[verb].partition(":")
    parsed = getattr(import_module(module), name)(list(words))
    groups = [group for group in vars(parsed).values() if dataclasses.is_dataclass(group)]
    values = {f.name: getattr(group, f.name, None) for group in groups for f in dataclasses.fields(group)}
    values["record"] = dict(parsed.record)
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: Any) -> Any:
    """Return a value as what every commit can read: numbers, text, lists and mappings."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(entry) for entry in value]
    return value if isinstance(value, int | float | str | None) else repr(value).split(" at 0x")[0]


def same_where_both(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Differences:
    """Yield where options that both commits have differ; an option of one commit alone is for `removed`."""
    for option in before.keys() & after.keys() - {"record"}:
        yield from different_values(f"{name}: {option}", before[option], after[option])
    shared_options = before.keys() & after.keys()
    records = (
        {key: value for key, value in values["record"].items() if key in shared_options} for values in (before, after)
    )
    yield from different_values(f"{name}: record", *records)


@pin
def configs(before: Side, after: Side, data: Path) -> Differences:
    """Read all files of configs/: options, their rules for resuming, and the points of sweeps are the same."""
    needed = {
        "pretrain": [],
        "glue": ["--pretrain_path=a"],
        "squad": ["--pretrain_path=a"],
        "choose": ["--pretrain_path=a"],
        "tag": ["--pretrain_path=a", "--train_file=a", "--validation_file=b"],
    }
    folders = {"pretraining": "pretrain", "glue": "glue", "squad": "squad", "swag": "choose", "tagging": "tag"}
    for folder, verb in folders.items():
        for file in sorted((before.checkout / "configs" / folder).glob("*.yaml")):
            values = []
            for side in (before, after):
                config = side.checkout / "configs" / folder / file.name
                text = json.dumps(side.call(effective_options, verb, [*needed[verb], f"--config={config}"]))
                values.append(json.loads(text.replace(str(side.checkout), "").replace(str(side.folder), "")))
            yield from same_where_both(f"configs/{folder}/{file.name}", *values)
    for file in sorted((before.checkout / "configs" / "sweeps").glob("*.yaml")):
        points = (side.call(points_of, side.checkout / "configs" / "sweeps" / file.name) for side in (before, after))
        yield from different_values(f"configs/sweeps/{file.name}", *points)
    first, second = (side.call(resuming_rules) for side in (before, after))
    for name in sorted(first.keys() & second.keys()):
        yield from different_values(f"resuming with another --{name}", first[name], second[name])


FLAGS = (
    ["--train_file=a"],
    ["--objective=mlm"],
    ["--objective=two_stage", "--generator_size=1", "--generator_layer_size=1"],
    ["--objective=electric"],
    ["--objective=causal"],
    ["--generator_type=uniform"],
    ["--model_size=tiny"],
    ["--max_steps=-1", "--num_train_epochs=2"],
    ["--discriminator_type=modernbert"],
    ["--init_discriminator=a", "--init_generator=a"],
    ["--token_cache=a"],
    ["--tokenizer_path=a", "--vocab_size=100"],
)
"""Options beside a file of configs/pretraining."""


@pin
def flags(before: Side, after: Side, data: Path) -> Differences:
    """Read each file of configs/pretraining beside other options: the options are the same, and so is config.yaml."""
    files = [file.name for file in sorted((before.checkout / "configs" / "pretraining").glob("*.yaml"))]
    results = []
    for side in (before, after):
        lines = [
            [f"--config={side.checkout / 'configs' / 'pretraining' / file}", *words]
            for file in files
            for words in FLAGS
        ]
        text = json.dumps(side.call(effective_options_of_all, "pretrain", lines))
        results.append(json.loads(text.replace(str(side.checkout), "").replace(str(side.folder), "")))
    names = [f"{' '.join(words)} {file}" for file in files for words in FLAGS]
    for name, first, second in zip(names, *results, strict=True):
        if isinstance(first, str) or isinstance(second, str):
            if isinstance(first, str) != isinstance(second, str):
                how = "was refused, is read" if isinstance(first, str) else "was read, is refused"
                yield f"{how}: {name}: {first if isinstance(first, str) else second}"
        else:
            yield from same_where_both(name, first, second)


def effective_options_of_all(verb: str, lines: Sequence[Sequence[str]]) -> list[dict[str, Any] | str]:
    """Return the options of each command line, see `effective_options`; why it is refused, if it is."""
    results: list[dict[str, Any] | str] = []
    for words in lines:
        try:
            results.append(effective_options(verb, words))
        except ValueError as error:  # a `UserError`
            results.append(f"refused ({error})")
    return results


def points_of(file: Path) -> list[dict[str, Any]]:
    """Return the values of the first points of a sweep file, if no result is known."""
    try:
        module = import_module("electra.tools.sweep_file")
    except ModuleNotFoundError:  # before optuna's storage
        module = import_module("electra.sweep.file")
        sweep = module.read_sweep(file)
        return [{name: point[name] for name in sweep.swept} for point in module.propose(sweep, 10)]
    return [dict(point.values) for point in module.first_points(module.read_sweep(file), 10).values()]


def resuming_rules() -> dict[str, str]:
    """Return option -> its rule for resuming, in the commit of the process."""
    return dict(import_module("electra.pretraining.configuration").RESUMING)


@pin
def quickstart(before: Side, after: Side, data: Path) -> Differences:
    """Begin the quickstart, with a corpus and tokenizer of its own: weights, losses and metrics are the same."""
    runs = []
    for side in (before, after):
        config = side.checkout / "configs" / "pretraining" / "quickstart.yaml"
        options: dict[str, Any] = {"config": config, "threads": 1}
        options |= {"max_steps": 60, "eval_steps": 30, "logging_steps": 10, "max_eval_segments": 200}
        options |= {"cache_dir": side.folder / "cache-quickstart", "output_dir": side.folder / "output"}
        side.command("pretrain", **options, bf16="false")
        runs.append(side.folder / "output" / "quickstart")
    yield from different_files(runs[0], runs[1], [f"checkpoint-60/{name}" for name in STATE])
    for name, part in (("metrics.json", "held_out"), ("trainer_state.json", "log_history")):
        yield from different_values(f"quickstart/{name}", *(content_of(run / name)[part] for run in runs))


@pin
def python(before: Side, after: Side, data: Path) -> Differences:
    """Train in Python: the run is that of the command of BEFORE."""
    run = run_of(before, "windows", data)
    python_run = after.folder / "output" / "python"
    after.call(train_in_python, python_run, data)
    yield from different_files(run, python_run, [f"checkpoint-24/{name}" for name in STATE])
    histories = (
        content_of(folder / "checkpoint-24" / "trainer_state.json")["log_history"] for folder in (run, python_run)
    )
    yield from different_values("python: log", *histories)


def train_in_python(folder: Path, data: Path) -> None:
    """Make the run `windows` with the public names of the package."""
    from electra import (
        ElectraForJointPretraining,
        ElectraTrainer,
        ElectraTrainingArguments,
        SegmentArguments,
        load_tokenizer,
        tokenize_corpus,
    )

    values = {**PRETRAINING, **paths(data), **LENGTH}
    sizes = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "embedding_size")
    tokenizer = load_tokenizer(str(values["tokenizer_path"]))
    files = {name: tokenize_corpus(values[name], tokenizer, cache_dir=data / "cache-python")
             for name in ("train_file", "validation_file")}  # fmt: skip
    networks = {name: values[name] for name in (*sizes, "max_position_embeddings", "generator_size")}
    model = ElectraForJointPretraining.from_recipe("small", tokenizer, seed=values["seed"], **networks)
    of_run = ("seed", "per_device_train_batch_size", "max_steps", "warmup_steps")
    training = {name: values[name] for name in (*of_run, *LENGTH)}
    trainer = ElectraTrainer(
        model=model,
        args=ElectraTrainingArguments(str(folder), **training, bf16=False),
        train_dataset=files["train_file"],
        eval_dataset=files["validation_file"],
        processing_class=tokenizer,
        segments=SegmentArguments(max_length=values["max_length"]),
    )
    trainer.train()


@pin
def scores(before: Side, after: Side, data: Path) -> Differences:
    """Evaluate each task: scores and logits, and of pairs and detect the scores of each row, are the same."""
    network = run_of(before, "windows", data)
    for name in TASKS:
        yield from different_results(*(evaluation_of(side, name, data, network) for side in (before, after)))
    for side in (before, after):
        folder = side.folder / "evaluations"
        side.command("pairs", pretrain_path=network, data=data / "pairs.jsonl", output_dir=folder,
                     experiment_name="pairs")  # fmt: skip
        side.command("detect", data / "odd.jsonl", pretrain_path=network, output_dir=folder / "detect")
    first, second = (side.folder / "evaluations" for side in (before, after))
    yield from different_files(first, second, ["pairs/*.jsonl", "detect/*.jsonl"])


SERIES = ("pretrain", "classify and predict", "cache", "tokenizer")
"""Commands that `kills` disturbs, see `kill_series`."""


@pin
def kills(before: Side, after: Side, data: Path) -> Differences:
    """Kill commands at random moments and start them again: they end like undisturbed ones."""
    seed = random.randrange(2**16)
    print(f"kills: seed {seed}", flush=True)
    for name in SERIES:
        try:
            after.call(kill_series, name, after.folder / f"kills-{name}", seed)
        except SideError as error:
            yield f"{name}, seed {seed}: {error}"


def kill_series(name: str, folder: Path, seed: int) -> None:
    """Run a series of tests/chaos.py, which raises an AssertionError if what was killed does not end alike."""
    from tests import chaos

    folder.mkdir()
    series: dict[str, Callable[[], Any]] = {
        "pretrain": lambda: chaos.disturb(folder, 4, seed, dataloader_num_workers=1),
        "classify and predict": lambda: chaos.disturb_tasks(folder, 6, seed),
        "cache": lambda: chaos.disturb_cache(folder, 4, seed),
        "tokenizer": lambda: chaos.disturb_tokenizer(folder, 4, seed),
    }
    series[name]()


# ---- the command


def check_pin(name: str, before: Side, after: Side, data: Path) -> tuple[str, list[str]]:
    """Return the result of a pin as a word, and lines that say what differs, first what is not explained."""
    differing: list[str] = []
    try:
        differing.extend(PINS[name](before, after, data))  # those before an error are kept
    except SideError as error:
        return "FAILED", [*str(error).splitlines(), *differing]
    reasons = {line: why for line in differing for part, why in EXPLAINED.items() if part in line}
    differences = [line for line in differing if line not in reasons]
    explained = [f"{line} ({why})" for line, why in reasons.items()]
    return ("DIFFERS" if differences else "same"), [*differences, *explained]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", nargs="?", default=REFERENCE, help="commit or folder of a checkout")
    parser.add_argument("after", nargs="?", default=str(ROOT), help="another one; by default the working tree")
    parser.add_argument("--work", type=Path, required=True, help="folder that is replaced")
    parser.add_argument("--only", nargs="+", choices=PINS, default=[*PINS], metavar="PIN", help=f"of {' '.join(PINS)}")
    arguments = parser.parse_args()
    work = arguments.work.resolve()
    for name in ("before", "after", "data"):
        shutil.rmtree(work / name, ignore_errors=True)
        (work / name / "files").mkdir(parents=True)
    data = work / "data" / "files"
    write_data(data)
    write_more_data(data)
    folders = [work / name / "files" for name in ("before", "after")]
    checkouts = [checkout_of(getattr(arguments, name), work / name / "checkout") for name in ("before", "after")]
    rows = []
    with Side("before", checkouts[0], folders[0]) as before, Side("after", checkouts[1], folders[1]) as after:
        before.command("tokenizer", train_file=data / "corpus.txt", vocab_size=300, output_dir=data / "tokenizer")
        for name in arguments.only:
            started = time.monotonic()
            result, differences = check_pin(name, before, after, data)
            seconds = time.monotonic() - started
            rows.append(f"{name:<12} {result:<8} {seconds:5.0f} s  {PINS[name].__doc__}")
            more = [f"and {len(differences) - SHOWN} more"] if len(differences) > SHOWN else []
            print(rows[-1], *differences[:SHOWN], *more, sep="\n    ", flush=True)
    print("", *rows, sep="\n")
    sys.exit(any(" same " not in row for row in rows))


if __name__ == "__main__":
    main()
