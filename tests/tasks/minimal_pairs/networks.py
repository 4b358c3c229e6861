"""A tiny pair of random networks for a tokenizer, and a folder that looks like their run."""

import torch
from transformers import ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining

from electra.model.pretrained import ENERGY_KEY

PAIRS = (
    {"sentence_good": "the dog sells sea shells", "sentence_bad": "the dog sell sea shells",
     "UID": "agreement", "linguistics_term": "morphology"},
    {"sentence_good": "the dog sells sea shells", "sentence_bad": "dog the sells sea shells", "UID": "order"},
    {"sentence_good": "a fox jumps", "sentence_bad": "a fox fox jumps", "UID": "order"},
    {"sentence_good": "A fox jumps", "sentence_bad": "a fox jumps", "UID": "case", "phenomenon": "morphology"},
)  # fmt: skip
"""The last pair is a tie for a tokenizer that lower-cases."""


def random_pair(tokenizer):
    """Return a discriminator and a generator with random weights."""
    config = ElectraConfig(
        vocab_size=len(tokenizer), embedding_size=8, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=24, max_position_embeddings=24, pad_token_id=0, initializer_range=0.4,
    )  # fmt: skip
    torch.manual_seed(0)
    return ElectraForPreTraining(config).eval(), ElectraForMaskedLM(config).eval()


def write_run(folder, tokenizer, **options):
    """Write the folder of a run that was started with these options; return it."""
    folder.mkdir(parents=True)
    for network, name in zip(random_pair(tokenizer), ("discriminator", "generator"), strict=True):
        if name == "discriminator" and options.get("objective") == "electric":
            setattr(network.config, ENERGY_KEY, True)
        elif options.get("objective") == "causal":
            network.config.has_causal_attention = True
        network.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    (folder / "config.yaml").write_text("".join(f"{name}: {value}\n" for name, value in options.items()))
    return folder
