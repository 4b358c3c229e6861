"""Pre-training recipes as data: the paper's, table 6 of Clark et al. 2020, appendix B; and this project's.

Every recipe sets every field, by the names of the options, so that no default of another size remains. The original's
`model_size: base` changes only the transformer and keeps small's learning rate, batch, length, generator and masking
(google-research/electra, configure_pretraining.py). The share of [MASK] and lambda are the same for all sizes; they
belong to the objective (objectives.py).

Sizes are those of the discriminator; the batch is for one device without accumulation.
"""

_COMMON: dict[str, int | float] = {
    "generator_layer_size": 1.0,
    "max_position_embeddings": 512,  # also where max_length is 128: the released models can be fine-tuned at 512
    "warmup_steps": 10_000,
    "weight_decay": 0.01,
    "max_grad_norm": 1.0,  # not in the table; the original's optimization.py
    "adam_beta1": 0.9,
    "adam_beta2": 0.999,
    "adam_epsilon": 1e-6,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
}
_COLUMNS = (
    *("hidden_size", "num_hidden_layers", "intermediate_size", "num_attention_heads", "embedding_size"),
    *("generator_size", "mlm_probability"),
    *("max_length", "per_device_train_batch_size", "learning_rate", "max_steps"),
)
_TABLE: dict[str, tuple[int | float, ...]] = {
    "small": (256, 12, 1024, 4, 128, 1 / 4, 0.15, 128, 128, 5e-4, 1_000_000),
    # google/electra-small-*: a generator as large as the discriminator and 4M steps are in google-research/electra's
    # README (and issues 39 and 68 there). Batch and learning rate are not stated anywhere; they are small's.
    "small++": (256, 12, 1024, 4, 128, 1.0, 0.15, 512, 128, 5e-4, 4_000_000),
    "base": (768, 12, 3072, 12, 768, 1 / 3, 0.15, 512, 256, 2e-4, 766_000),
    # ELECTRA-400K. The released google/electra-large-* is ELECTRA-1.75M: the same with max_steps 1_750_000.
    "large": (1024, 24, 4096, 16, 1024, 1 / 4, 0.25, 512, 2048, 2e-4, 400_000),
}
_PARTS = {"discriminator_type": "modernbert", "tie": "none", "initialization": "local"}
"""ModernBERT's layers learn within one or two million tokens, where the paper's need 18 (docs/results.md)."""
_CPU: dict[str, int | float | str] = {
    **{"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "mlm_probability": 0.25},
    **{"generator_size": 0.25, "generator_layer_size": 0.5},
    **{"max_length": 128, "per_device_train_batch_size": 32, "warmup_steps": 500},
}
_OWN: dict[str, dict[str, int | float | str]] = {
    # An hour and ten hours of two CPU cores, estimated (docs/pretraining.md).
    "tiny": _CPU
    | {"vocab_size": 4096, "hidden_size": 192, "embedding_size": 192, "num_hidden_layers": 4}
    | {"num_attention_heads": 3, "intermediate_size": 384, "initializer_range": 0.06}
    | {"learning_rate": 1e-3, "max_steps": 12_000},
    "mini": _CPU
    | {"vocab_size": 8192, "hidden_size": 256, "embedding_size": 256, "num_hidden_layers": 6}
    | {"num_attention_heads": 4, "intermediate_size": 512, "initializer_range": 0.04}
    | {"learning_rate": 5e-4, "max_steps": 60_000},
    # As many FLOPs (6 N T and attention) as small, within 1 %: gated feed-forward layers have a third matrix.
    "modern-small": {"embedding_size": 256, "intermediate_size": 688},
}
PAPER: dict[str, dict[str, int | float | str]] = {
    name: {**_COMMON, **dict(zip(_COLUMNS, row, strict=True))} for name, row in _TABLE.items()
}
RECIPES = PAPER | {name: {**PAPER["small"], **_PARTS, **row} for name, row in _OWN.items()}
"""Recipe by name. `*_steps` are optimizer steps, `generator_*` fractions of the sizes. All have the fields of the
paper's; this project's also name the parts of the networks."""
