"""Pre-training recipes as data: the paper's, table 6 of Clark et al. 2020, appendix B; and this project's.

Every recipe sets every field, by the names of the options, so that no default of another size remains. The original's
`model_size: base` changes only the transformer and keeps small's learning rate, batch, length, generator and masking
(google-research/electra, configure_pretraining.py). The share of [MASK] and lambda are the same for all sizes; they
belong to the objective (objectives.py).

Sizes are those of the discriminator; the batch is for one device without accumulation.
"""

Recipe = dict[str, int | float | str]
"""The values of a recipe by the names of their options."""

_COMMON: Recipe = {
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
"""Values that all sizes of table 6 share."""
_SMALL: Recipe = _COMMON | {
    "hidden_size": 256,
    "num_hidden_layers": 12,
    "intermediate_size": 1024,
    "num_attention_heads": 4,
    "embedding_size": 128,
    "generator_size": 1 / 4,
    "mlm_probability": 0.15,
    "max_length": 128,
    "per_device_train_batch_size": 128,
    "learning_rate": 5e-4,
    "max_steps": 1_000_000,
}
"""ELECTRA-Small of table 6, 14 M parameters."""
_MODERN: Recipe = _SMALL | {"discriminator_type": "modernbert", "tie": "none", "initialization": "local"}
"""Values of ModernBERT's layers, which learn within one or two million tokens, where the paper's layers need 18
million (docs/results.md)."""
_CPU: Recipe = _MODERN | {
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "mlm_probability": 0.25,
    "generator_layer_size": 0.5,
    "per_device_train_batch_size": 32,
    "warmup_steps": 500,
}
"""Values of this project's recipes for a CPU, without dropout (docs/results.md)."""
RECIPES: dict[str, Recipe] = {
    "small": _SMALL,
    # google/electra-small-*: a generator as large as the discriminator and 4M steps are in google-research/electra's
    # README (and issues 39 and 68 there). Batch and learning rate are not stated anywhere; they are small's.
    "small++": _SMALL
    | {
        "generator_size": 1.0,
        "max_length": 512,
        "max_steps": 4_000_000,
    },
    "base": _COMMON
    | {
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "intermediate_size": 3072,
        "num_attention_heads": 12,
        "embedding_size": 768,
        "generator_size": 1 / 3,
        "mlm_probability": 0.15,
        "max_length": 512,
        "per_device_train_batch_size": 256,
        "learning_rate": 2e-4,
        "max_steps": 766_000,
    },
    # ELECTRA-400K. The released google/electra-large-* is ELECTRA-1.75M: the same with max_steps 1_750_000.
    "large": _COMMON
    | {
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "intermediate_size": 4096,
        "num_attention_heads": 16,
        "embedding_size": 1024,
        "generator_size": 1 / 4,
        "mlm_probability": 0.25,
        "max_length": 512,
        "per_device_train_batch_size": 2048,
        "learning_rate": 2e-4,
        "max_steps": 400_000,
    },
    # tiny: an hour and a half of one CPU core, measured; mini: ten hours of two, estimated (docs/pretraining.md).
    "tiny": _CPU
    | {
        "vocab_size": 4096,
        "hidden_size": 192,
        "embedding_size": 192,
        "num_hidden_layers": 4,
        "num_attention_heads": 3,
        "intermediate_size": 384,
        "initializer_range": 0.06,
        "learning_rate": 1e-3,
        "max_steps": 12_000,
    },
    "mini": _CPU
    | {
        "vocab_size": 8192,
        "embedding_size": 256,
        "num_hidden_layers": 6,
        "intermediate_size": 512,
        "initializer_range": 0.04,
        "max_steps": 60_000,
    },
    # As many FLOPs (6 N T and attention) as small, within 1 %: gated feed-forward layers have a third matrix.
    "modern-small": _MODERN | {"embedding_size": 256, "intermediate_size": 688},
}
"""Recipes by name: the paper's, `small++` of its released code, and this project's. `*_steps` are optimizer steps,
`generator_*` fractions of the discriminator's sizes. All recipes have the fields of the paper's; this project's own
also set architecture, sharing and initial weights."""
