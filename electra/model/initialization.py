"""Initial weights as the original draws them, where that differs from transformers.

    normal            normal with the configuration's standard deviation, as transformers initializes
    truncated_normal  the same, truncated at two standard deviations, which leaves .88 of the standard deviation
    original          truncated normal, but Glorot uniform for the two layers without an initializer in the original:
                      the embedding projection and the discriminator's output

In all of them biases are zero and normalizations the identity.

Source: google-research/electra, model/modeling.py (create_initializer; embeddings_project has none) and
pretrain/... run_pretraining.py (the discriminator's last layer has none: TensorFlow's default is Glorot's).
"""

import torch
from torch import nn
from transformers import PreTrainedModel

from electra.model.networks import backbone_of
from electra.model.tying import DisentangledEmbedding

INITIALIZATIONS = ("normal", "truncated_normal", "original")


@torch.no_grad()
def initialize(network: PreTrainedModel, initialization: str) -> None:
    """Initialize a fresh network from torch's current random state, by one of `INITIALIZATIONS`."""
    if initialization == "normal":
        return
    for module in network.modules():
        if isinstance(module, nn.Linear | nn.Embedding) and not isinstance(module, DisentangledEmbedding):
            std = network.config.initializer_range
            nn.init.trunc_normal_(module.weight, std=std, a=-2 * std, b=2 * std)
    for module in network.modules():  # last: the LM head may share this table
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            module.weight[module.padding_idx].zero_()
    if initialization == "original":
        path = backbone_of(network).projection
        modules = dict(network.base_model.named_modules())
        if path in modules:
            nn.init.xavier_uniform_(modules[path].weight)
        if hasattr(network, "discriminator_predictions"):
            nn.init.xavier_uniform_(network.discriminator_predictions.dense_prediction.weight)
