"""Weights shared by generator and discriminator: the `--tie` modes.

    none        nothing
    word        word embeddings
    embeddings  word, position and type embeddings and their LayerNorm (section 3.2 of the paper, and its code)
    all         the whole encoder; generator and discriminator must be of one size
    gdes        word and position embeddings as in DeBERTa-v3: the discriminator's are the generator's plus a table of
                its own, which alone receives the discriminator's gradient

transformers shares the parameters (`_tied_weights_keys`) and keeps them shared through loading, moving and saving. In
every mode a network's LM head is tied to its own word embeddings, unless it is a trained network whose configuration
says otherwise (released EuroBERT and UltraBERT).
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel

from electra.core.errors import UserError
from electra.core.networks import backbone_of, embedding_modules

EMBEDDING_ROLES = {
    "word": ("word",),
    "embeddings": ("word", "position", "token_type", "norm"),
    "gdes": ("word", "position"),
}
"""Mode of --tie -> roles of the embeddings that it shares (`Backbone.embeddings`)."""


class DisentangledEmbedding(nn.Embedding):
    """An embedding E_D = sg(E_G) + E_delta: a table added to another network's, without gradient for that network.

    Gradient-disentangled embedding sharing, section 3.3 of DeBERTaV3 (He et al. 2021). E_delta starts at zero.

    Args:
        shared: the generator's embedding, which is no submodule here: the generator saves and moves it.
    """

    shared: nn.Embedding

    def __init__(self, shared: nn.Embedding) -> None:
        super().__init__(shared.num_embeddings, shared.embedding_dim, padding_idx=shared.padding_idx)
        self.__dict__["shared"] = shared  # nn.Module would register it
        with torch.no_grad():
            self.weight.zero_()
        setattr(self.weight, "_is_hf_initialized", True)  # noqa: B010 transformers would initialize it

    def forward(self, input_ids: Tensor) -> Tensor:
        generator_embedding = F.embedding(input_ids, self.shared.weight.detach())
        return generator_embedding + super().forward(input_ids)

    def table(self) -> Tensor:
        """Return E_D as one table, (V, E)."""
        return (self.shared.weight + self.weight).detach()


def tied_weights(generator: PreTrainedModel, discriminator: PreTrainedModel, tie: str) -> dict[str, str]:
    """Return the names of the discriminator's shared weights, each with the name of the generator's weight.

    Args:
        tie: none, word, embeddings, all or gdes; see the module's docstring.
    Returns:
        names in the joint model, such as discriminator.electra.embeddings.word_embeddings.weight -> generator. ...
    Raises:
        UserError: weights that are to be shared differ in shape.
    """
    names: dict[str, str] = {}  # within the encoders
    if tie == "all":
        difference = size_difference(generator, discriminator)
        if difference:
            raise UserError(
                f"--tie all shares one encoder, but {difference}; give them the same type and size (--generator_size "
                "1.0 --generator_layer_size 1.0), or choose --tie embeddings"
            )
        names = {name: name for name in encoder_weights(discriminator)}
    elif tie in ("word", "embeddings"):
        for role in _shared_roles(generator, discriminator, tie):
            target = backbone_of(discriminator).embeddings[role]
            source = backbone_of(generator).embeddings[role]
            for name in _shapes(embedding_modules(discriminator)[role]):
                names[f"{target}.{name}"] = f"{source}.{name}"
    discriminator_path = f"discriminator.{discriminator.base_model_prefix}"
    generator_path = f"generator.{generator.base_model_prefix}"
    return {f"{discriminator_path}.{name}": f"{generator_path}.{source}" for name, source in names.items()}


def plain_state(network: PreTrainedModel) -> dict[str, Tensor]:
    """Return the weights of a single network by name, with each `DisentangledEmbedding` as one table."""
    state = network.state_dict()
    for name, module in network.named_modules():
        if isinstance(module, DisentangledEmbedding):
            state[f"{name}.weight"] = module.table()
    return state


def load_plain_state(network: PreTrainedModel, state: dict[str, Tensor]) -> None:
    """Load a result of `plain_state`; a `DisentangledEmbedding` gets the difference from the generator's table."""
    state = dict(state)
    for name, module in network.named_modules():
        if isinstance(module, DisentangledEmbedding):
            table = state[f"{name}.weight"]
            state[f"{name}.weight"] = table - module.shared.weight.detach()
    network.load_state_dict(state)


def disentangle(generator: PreTrainedModel, discriminator: PreTrainedModel) -> None:
    """Replace the discriminator's word and position embeddings by `DisentangledEmbedding`s."""
    shared = embedding_modules(generator)
    for role in _shared_roles(generator, discriminator, "gdes"):
        path = backbone_of(discriminator).embeddings[role]
        table = DisentangledEmbedding(shared[role])
        discriminator.base_model.set_submodule(path, table)


def _shared_roles(
    generator: PreTrainedModel,
    discriminator: PreTrainedModel,
    tie: str,
) -> list[str]:
    """Return the roles of the embeddings that a mode of --tie shares, if both networks have them in the same shape.

    Raises:
        UserError: the word embeddings differ in width.
    """
    modules = embedding_modules(discriminator)
    generator_modules = embedding_modules(generator)
    width = modules["word"].weight.size(1)
    generator_width = generator_modules["word"].weight.size(1)
    if width != generator_width:
        raise UserError(
            f"--tie {tie} shares the word embeddings, but the generator's are {generator_width} wide and the "
            f"discriminator's {width}: choose --generator_size {width / discriminator.config.hidden_size:g}, a "
            "--generator_type that projects its embeddings, or --tie none"
        )
    return [
        role
        for role in EMBEDDING_ROLES[tie]
        if role in modules.keys() & generator_modules.keys()
        and _shapes(modules[role]) == _shapes(generator_modules[role])
    ]


def encoder_weights(network: PreTrainedModel) -> dict[str, nn.Parameter]:
    """Return the weights of the encoder by name, without the pooler, which no objective trains."""
    parameters = network.base_model.named_parameters()
    return {name: parameter for name, parameter in parameters if not name.startswith("pooler.")}


def size_difference(generator: PreTrainedModel, discriminator: PreTrainedModel) -> str | None:
    """Return a clause about the first difference in size between two encoders; None if their sizes are equal."""
    sizes = _sizes(discriminator)
    generator_sizes = _sizes(generator)
    for name in sorted(sizes | generator_sizes):
        if sizes.get(name) != generator_sizes.get(name):
            return f"{name} is {generator_sizes.get(name)} in the generator and {sizes.get(name)} in the discriminator"
    return None


def _sizes(network: PreTrainedModel) -> dict[str, int | tuple[int, ...]]:
    sizes = {name: tuple(parameter.shape) for name, parameter in encoder_weights(network).items()}
    return {"num_attention_heads": network.config.num_attention_heads, **sizes}


def _shapes(module: nn.Module) -> dict[str, torch.Size]:
    return {name: parameter.shape for name, parameter in module.named_parameters()}
