"""A run of the real command in this process, tiny: what the tests of the trainer and of whole runs share."""

import random

import torch
from safetensors.torch import load_file

from electra.core.backbones import BACKBONES, UNIFORM
from electra.core.objectives import objective_of
from electra.pretraining.data import load_data
from electra.pretraining.model import prepare_model
from electra.pretraining.options import parse_pretraining_arguments
from electra.pretraining.run_folder import open_run, provenance_of
from electra.pretraining.trainer import ElectraTrainer
from tests.helpers import read_json

WORDS = [
    "".join(parts) for parts in zip("bdfgklmnprst" * 9, "aeiou" * 22, "bdfgklmnprst" * 9, "aeiou" * 22, strict=False)
]
"""Nonsense words of four letters, 60 different ones."""

TINY = {
    "vocab_size": 120,
    "embedding_size": 16,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 32,
    "generator_size": 0.5,
    "max_length": 16,
    "per_device_train_batch_size": 4,
    "per_device_eval_batch_size": 8,
    "learning_rate": 1e-3,
    "warmup_steps": 2,
    "max_steps": 12,
    "logging_steps": 4,
    "eval_steps": 6,
    "save_steps": 4,
    "save_total_limit": 10,
    "validation_fraction": 0.2,
    "max_eval_segments": 20,
}
"""Options of a run of seconds that evaluates, saves and logs several times."""

FAST = {"eval_strategy": "no", "validation_fraction": 0, "hidden_size": 16, "num_hidden_layers": 1}
"""Options of a run that is even smaller and evaluates nothing."""

TWO_STAGE = {
    "objective": "two_stage",
    "generator_size": 1,
    "generator_layer_size": 1,
    "intermediate_size": 128,
    "weight_decay": 0.1,
    "logging_steps": 1,
    "save_total_limit": 20,
}
"""Options of a run of two stages, whose networks are of one size."""


def write_corpus(path, documents=30, words=40, seed=0):
    """Documents of seeded nonsense words, several windows long, blank lines between them."""
    source = random.Random(seed)
    paragraphs = [" ".join(source.choice(WORDS) for _ in range(words)) for _ in range(documents)]
    path.write_text("\n\n".join(paragraphs) + "\n")
    return path


def flags(folder, **options):
    """The command line of a tiny run below `folder`, with some options of its own."""
    values = {
        "train_file": folder / "corpus.txt",
        "output_dir": folder / "output",
        "cache_dir": folder / "cache",
        "experiment_name": "run",
        "disable_tqdm": True,
        **TINY,
        **options,
    }
    # What a network that is not there, or one without projection, or a finished tokenizer would refuse.
    finished = ("tokenizer_path", "init_discriminator", "init_generator", "init_checkpoint", "token_cache")
    if any(options.get(name) for name in finished):
        values["vocab_size"] = options.get("vocab_size")
    is_uniform = options.get("generator_type") == UNIFORM
    if not objective_of(options.get("objective") or "electra", is_uniform).has_generator:
        values["generator_size"] = options.get("generator_size")
    discriminator = BACKBONES.get(str(options.get("discriminator_type", "electra")), BACKBONES["electra"])
    if discriminator.projection is None:
        values["embedding_size"] = options.get("embedding_size")
    return [f"--{name}={value}" for name, value in values.items() if value is not None]


def make(folder, **options):
    """The trainer of a tiny run below `folder`, ready to train.

    `auto_resume=True` continues the run that is there. What a run refuses, it refuses in `.train()`.
    """
    args = parse_pretraining_arguments(flags(folder, **options))
    run = open_run(args)
    data = load_data(args, run.checkpoint)
    args, model = prepare_model(args, run, data)
    provenance = provenance_of(args.used_values(), data.text_provenance, args.training.segments_per_step)
    return ElectraTrainer(model, args.training, data, objective=args.objective, provenance=provenance)


def history(checkpoint):
    """The log that a checkpoint holds."""
    return read_json(checkpoint / "trainer_state.json")["log_history"]


def assert_same_state(first, second):
    """Weights, optimizer and schedule of two checkpoints are equal bit for bit."""
    weights = load_file(first / "model.safetensors")
    other = load_file(second / "model.safetensors")
    assert weights.keys() == other.keys()
    assert all(torch.equal(weights[name], other[name]) for name in weights)
    for name in ("optimizer.pt", "scheduler.pt"):
        assert_equal(*(torch.load(folder / name, weights_only=True) for folder in (first, second)))


def assert_equal(first, second):
    """Two values are equal bit for bit: mappings, lists, tensors, numbers. The text of a large tensor is abridged."""
    assert type(first) is type(second)
    if isinstance(first, dict):
        assert first.keys() == second.keys()
        first, second = [*first.values()], [*second.values()]
    if isinstance(first, list | tuple):
        assert len(first) == len(second)
        for pair in zip(first, second, strict=True):
            assert_equal(*pair)
    elif isinstance(first, torch.Tensor):
        assert first.dtype == second.dtype and torch.equal(first, second)
    else:
        assert first == second
