"""Weights shared by generator and discriminator: the `--tie` modes.

    none        nothing
    word        word embeddings
    embeddings  word, position and type embeddings and their LayerNorm (section 3.2 of the paper, and its code)
    all         the whole encoder; generator and discriminator must be of one size
    gdes        word and position embeddings as in DeBERTa-v3: the discriminator's are the generator's plus a table of
                its own, which alone receives the discriminator's gradient

transformers shares the parameters (`_tied_weights_keys`) and keeps them shared through loading, moving and saving. In
every mode a network's LM head is tied to its own word embeddings.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel

from electra.backbones import BACKBONES
from electra.io.errors import UserError
from electra.model.networks import backbone_of, embedding_modules


class DisentangledEmbedding(nn.Embedding):
    """E_D = sg(E_G) + E_delta: a table added to another network's, without gradient for that network.

    Gradient-disentangled embedding sharing, section 3.3 of DeBERTaV3 (He et al. 2021). E_delta starts at zero.

    Args:
        shared: the generator's table. It is no submodule of this one: its owner saves and moves it.
    """

    shared: nn.Embedding

    def __init__(self, shared: nn.Embedding) -> None:
        super().__init__(shared.num_embeddings, shared.embedding_dim, padding_idx=shared.padding_idx)
        self.__dict__["shared"] = shared  # nn.Module would register it
        with torch.no_grad():
            self.weight.zero_()
        setattr(self.weight, "_is_hf_initialized", True)  # noqa: B010 transformers would initialize it

    def forward(self, input_ids: Tensor) -> Tensor:
        return F.embedding(input_ids, self.shared.weight.detach()) + super().forward(input_ids)

    def table(self) -> Tensor:
        """E_D as one table, (V, E)."""
        return (self.shared.weight + self.weight).detach()


def tied_weights(generator: PreTrainedModel, discriminator: PreTrainedModel, tie: str) -> dict[str, str]:
    """Names of the discriminator's shared weights, each with the generator's that replaces it.

    Returns:
        names in the joint model, in which the networks are `generator` and `discriminator`.
    Raises:
        UserError: weights that are to be shared differ in shape.
    """
    names: dict[str, str] = {}  # within the encoders
    if tie in ("word", "embeddings"):
        names |= _embeddings(generator, discriminator, tie)
    if tie == "all":
        names |= _whole_encoder(generator, discriminator)
    ours, theirs = f"discriminator.{discriminator.base_model_prefix}", f"generator.{generator.base_model_prefix}"
    return {f"{ours}.{name}": f"{theirs}.{source}" for name, source in names.items()}


def plain_state(network: PreTrainedModel) -> dict[str, Tensor]:
    """The weights of one network on its own; a `DisentangledEmbedding` becomes one table."""
    state: dict[str, Tensor] = network.state_dict()
    for name, module in network.named_modules():
        if isinstance(module, DisentangledEmbedding):
            state[f"{name}.weight"] = module.table()
    return state


def load_plain_state(network: PreTrainedModel, state: dict[str, Tensor]) -> None:
    """The inverse of `plain_state`: a `DisentangledEmbedding` keeps the difference to the shared table."""
    state = dict(state)
    for name, module in network.named_modules():
        if isinstance(module, DisentangledEmbedding):
            state[f"{name}.weight"] = state[f"{name}.weight"] - module.shared.weight.detach()
    network.load_state_dict(state)


def disentangle(generator: PreTrainedModel, discriminator: PreTrainedModel) -> None:
    """Replace the discriminator's word and position embeddings by `DisentangledEmbedding`s."""
    _check_words(generator, discriminator, "gdes")
    own, shared = embedding_modules(discriminator), embedding_modules(generator)
    for role in ("word", "position"):
        if role in own and role in shared and _shapes(own[role]) == _shapes(shared[role]):
            path = backbone_of(discriminator).embeddings[role]
            discriminator.base_model.set_submodule(path, DisentangledEmbedding(shared[role]))


def _embeddings(generator: PreTrainedModel, discriminator: PreTrainedModel, tie: str) -> dict[str, str]:
    _check_words(generator, discriminator, tie)
    targets, sources = embedding_modules(discriminator), embedding_modules(generator)
    names: dict[str, str] = {}
    for role in ("word",) if tie == "word" else targets:
        if role in sources and _shapes(targets[role]) == _shapes(sources[role]):
            target, source = backbone_of(discriminator).embeddings[role], backbone_of(generator).embeddings[role]
            names |= {f"{target}.{name}": f"{source}.{name}" for name in _shapes(targets[role])}
    return names


def _check_words(generator: PreTrainedModel, discriminator: PreTrainedModel, tie: str) -> None:
    widths = [embedding_modules(network)["word"].weight.size(1) for network in (generator, discriminator)]
    if widths[0] != widths[1]:
        projecting = " ".join(name for name, backbone in BACKBONES.items() if backbone.projection)
        size = widths[1] / discriminator.config.hidden_size
        raise UserError(
            f"--tie {tie} shares the word embeddings, but the generator's are {widths[0]} wide and the "
            f"discriminator's {widths[1]}: choose --generator_size {size:g}, or a --generator_type that projects its "
            f"embeddings ({projecting}), or --tie none"
        )


def encoder_weights(network: PreTrainedModel) -> dict[str, nn.Parameter]:
    """Weights of the encoder by name, without the pooler, which no objective trains."""
    return {name: p for name, p in network.base_model.named_parameters() if not name.startswith("pooler.")}


def difference(generator: PreTrainedModel, discriminator: PreTrainedModel) -> str | None:
    """The first difference in shape between the encoders' weights; None if they are of one size."""
    ours, theirs = (
        {name: " x ".join(map(str, p.shape)) for name, p in encoder_weights(network).items()}
        for network in (generator, discriminator)
    )
    for name in sorted(ours | theirs):
        if ours.get(name) != theirs.get(name):
            sizes = ours.get(name, "absent"), theirs.get(name, "absent")
            return f"{name} is {sizes[0]} in the generator and {sizes[1]} in the discriminator"
    return None


def _whole_encoder(generator: PreTrainedModel, discriminator: PreTrainedModel) -> dict[str, str]:
    different = difference(generator, discriminator)
    heads = [network.config.num_attention_heads for network in (generator, discriminator)]
    if different is None and heads[0] != heads[1]:
        different = f"there are {heads[0]} attention heads in the generator and {heads[1]} in the discriminator"
    if different:
        raise UserError(
            f"--tie all shares one encoder, but {different}; give them the same type and size (--generator_size 1.0 "
            "--generator_layer_size 1.0), or choose --tie embeddings"
        )
    return {name: name for name in encoder_weights(discriminator)}


def _shapes(module: nn.Module) -> dict[str, torch.Size]:
    return {name: parameter.shape for name, parameter in module.named_parameters()}
