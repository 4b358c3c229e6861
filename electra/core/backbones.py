"""The architectures of transformers that generator and discriminator can have: a table of their differences.

A backbone is an encoder of transformers with its LM head, used unchanged. A row of `BACKBONES` holds all that this
package needs to know about it; CONTRIBUTING.md shows how to add one.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple


class Backbone(NamedTuple):
    """One architecture, named by its `model_type` in transformers.

    Args:
        lm_head: attributes of `*ForMaskedLM` that turn hidden states into logits, applied in this order.
        projection: path in the encoder of the projection from embedding to hidden size; None if there is none.
        embeddings: paths in the encoder of modules that can be shared, by role; absent ones are not shared.
        takes_token_types: the encoder takes `token_type_ids`.
        has_pooler: the encoder includes a pooler. No objective trains it. It is saved with its initial weights, so
            that `*ForSequenceClassification` finds everything but its classifier in an exported detector.
        takes_attention_bias: the encoder adds a float mask, (B, 1, 1, L) or (B, 1, L, L), to its attention scores,
            unchanged. DeBERTa needs 0 and 1: it also masks its embeddings with them.
        has_local_layers: the float mask also replaces that of local layers, so it is given only where the text is not
            longer than the window of these layers.
        takes_mask_by_layer: the encoder takes a dict of two float masks, `full_attention` and `sliding_attention`.
        counts_positions_behind_padding: the first token's position is the padding token's id + 1.
        is_rotary: positions rotate pairs of dimensions of queries and keys; a row without it has a table of positions,
            or relative positions.
        ffn_matrices: matrices of a feed-forward layer; 3 if it is gated.
        settings: values that are written into every new configuration.
        as_wide_as_network: names of values in the configuration that are the width of the network.
        renamed: BERT's name of a value -> its name in this configuration, where they differ.
        lacks: BERT's names of dropouts that the architecture does not have.
    """

    lm_head: tuple[str, ...]
    projection: str | None = None
    embeddings: dict[str, str] = {
        "word": "embeddings.word_embeddings",
        "position": "embeddings.position_embeddings",
        "token_type": "embeddings.token_type_embeddings",
        "norm": "embeddings.LayerNorm",
    }
    takes_token_types: bool = True
    has_pooler: bool = False
    takes_attention_bias: bool = False
    has_local_layers: bool = False
    takes_mask_by_layer: bool = False
    counts_positions_behind_padding: bool = False
    is_rotary: bool = False
    ffn_matrices: int = 2
    settings: dict[str, Any] = {}
    as_wide_as_network: tuple[str, ...] = ()
    renamed: dict[str, str] = {}
    lacks: tuple[str, ...] = ()


_ROBERTA = Backbone(lm_head=("lm_head",), takes_attention_bias=True, counts_positions_behind_padding=True)
"""The row of RoBERTa, which XLM-RoBERTa and others share."""
_ROWS = {
    "electra": Backbone(
        lm_head=("generator_predictions", "generator_lm_head"),
        projection="embeddings_project",
        takes_attention_bias=True,
    ),
    "bert": Backbone(lm_head=("cls",), has_pooler=True, takes_attention_bias=True),
    # All layers share one set of parameters.
    "albert": Backbone(
        lm_head=("predictions",),
        projection="encoder.embedding_hidden_mapping_in",
        has_pooler=True,
        takes_attention_bias=True,
    ),
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "camembert": _ROBERTA,
    # As DeBERTa-v3: relative positions in buckets only, no token types. The embeddings' norm follows the projection:
    # it is as wide as the hidden layers and is not shared.
    "deberta-v2": Backbone(
        lm_head=("cls",),
        projection="embeddings.embed_proj",
        embeddings={"word": "embeddings.word_embeddings", "position": "embeddings.position_embeddings"},
        settings={
            "relative_attention": True,
            "pos_att_type": ["p2c", "c2p"],
            "position_biased_input": False,
            "position_buckets": 256,
            "share_att_key": True,
            "norm_rel_ebd": "layer_norm",
        },
    ),
    # Rotary positions, which have no table, and no token types.
    "modernbert": Backbone(
        lm_head=("head", "decoder"),
        embeddings={"word": "embeddings.tok_embeddings", "norm": "embeddings.norm"},
        takes_token_types=False,
        takes_mask_by_layer=True,
        is_rotary=True,
        ffn_matrices=3,
        # By default these are ids beyond our vocabularies.
        settings={"bos_token_id": None, "eos_token_id": None, "cls_token_id": None, "sep_token_id": None},
        renamed={"hidden_dropout_prob": "mlp_dropout", "attention_probs_dropout_prob": "attention_dropout"},
    ),
    # As ModernBERT, but its encoder takes one mask for full and local layers.
    "ultrabert": Backbone(
        lm_head=("head",),
        embeddings={"word": "embed_tokens"},
        takes_token_types=False,
        takes_attention_bias=True,
        has_local_layers=True,
        is_rotary=True,
        ffn_matrices=3,
        # Its ids are within any vocabulary, but of other tokens; the released network does not tie its LM head.
        settings={"bos_token_id": None, "eos_token_id": None, "tie_word_embeddings": True},
        as_wide_as_network=("prediction_head_size",),
        renamed={"attention_probs_dropout_prob": "attention_dropout"},
        lacks=("hidden_dropout_prob",),
    ),
    # The layers of Llama without its causal mask. No norm follows the embeddings.
    "eurobert": Backbone(
        lm_head=("lm_head",),
        embeddings={"word": "embed_tokens"},
        takes_token_types=False,
        takes_attention_bias=True,
        is_rotary=True,
        ffn_matrices=3,
        # By default ids beyond our vocabularies (joint_config sets that of [MASK]); the released network does not tie
        # its LM head.
        settings={"bos_token_id": None, "eos_token_id": None, "mask_token_id": 0, "tie_word_embeddings": True},
        renamed={"attention_probs_dropout_prob": "attention_dropout"},
        lacks=("hidden_dropout_prob",),
    ),
    # BERT's layers with rotary positions and gated feed-forward layers.
    "gte": Backbone(
        lm_head=("lm_head",),
        has_pooler=True,
        takes_attention_bias=True,
        is_rotary=True,
        ffn_matrices=3,
        settings={"type_vocab_size": 2},  # released GTEs have a single type, or none
    ),
    "nomic_bert": Backbone(
        lm_head=("cls",), has_pooler=True, takes_attention_bias=True, is_rotary=True, ffn_matrices=3
    ),
}
"""Rows by `model_type`, also of architectures that the installed transformers does not have."""


def _is_in_transformers(model_type: str) -> bool:
    """Return True if the installed transformers has an architecture, without importing transformers."""
    spec = find_spec("transformers")
    folders = (spec.submodule_search_locations if spec else None) or []
    package = model_type.replace("-", "_")
    return any(Path(folder, "models", package).is_dir() for folder in folders)


BACKBONES = {name: row for name, row in _ROWS.items() if _is_in_transformers(name)}
"""Backbones of the installed transformers by `model_type`."""
NEWER_BACKBONES = [name for name in _ROWS if name not in BACKBONES]
"""Names of backbones that need a newer transformers than the installed one."""
UNIFORM = "uniform"
"""The generator type that is no backbone: tokens are drawn uniformly from the vocabulary, without a network."""
