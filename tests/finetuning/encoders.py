"""Real encoders of a few thousand parameters, one of each kind of architecture."""

from transformers import (
    AlbertConfig,
    BertConfig,
    DebertaV2Config,
    DistilBertConfig,
    ElectraConfig,
    ElectraModel,
    ModernBertConfig,
    RobertaConfig,
)


def tiny_electra(vocab_size=6000, dropout=0.1, **values):
    """Return an encoder, by default of one layer of width 16, with weights large enough that tokens matter."""
    sizes = {
        "embedding_size": 8, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 16, "max_position_embeddings": 32, "initializer_range": 0.2,
    }  # fmt: skip
    dropouts = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    return ElectraModel(ElectraConfig(vocab_size=vocab_size, **dropouts, **{**sizes, **values}))


def tiny_configs(vocab_size=60):
    """Return configurations by model type: width 16, two layers, 40 positions in the table."""
    sizes = {
        "vocab_size": vocab_size, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 24, "max_position_embeddings": 40, "pad_token_id": 0,
    }  # fmt: skip
    special = {"bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3}
    relative = {
        "relative_attention": True, "position_buckets": 4, "norm_rel_ebd": "layer_norm", "share_att_key": True,
        "pos_att_type": ["p2c", "c2p"], "position_biased_input": False, "type_vocab_size": 0,
    }  # fmt: skip
    return {
        "electra": ElectraConfig(embedding_size=8, **sizes),
        "bert": BertConfig(**sizes),
        "albert": AlbertConfig(embedding_size=8, **sizes),
        "deberta-v2": DebertaV2Config(**relative, **sizes),
        "modernbert": ModernBertConfig(**sizes, **special),
        "roberta": RobertaConfig(type_vocab_size=1, **{**sizes, "pad_token_id": 1}),
        "distilbert": DistilBertConfig(
            vocab_size=vocab_size, dim=16, n_layers=2, n_heads=2, hidden_dim=24, max_position_embeddings=40
        ),
    }
