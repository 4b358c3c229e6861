"""Configurations of generator, discriminator and joint model, from the sizes that a user asks for."""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, get_args

from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig

from electra.core.backbones import BACKBONES
from electra.core.errors import UserError, abridged
from electra.core.objectives import KEYS, OBJECTIVES, Objective, Tie, check_values, objective_of
from electra.core.ranges import check

SMALLEST_HEAD = 8
"""Width of the narrowest attention head."""
SIZE_NAMES = (
    "embedding_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
)
"""Options that give the sizes of a new network; a trained network keeps its sizes."""
CAUSAL_KEY = "has_causal_attention"
"""Key in the configuration of a network that predicts each token from the tokens before it."""
DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob")
"""Options that give the dropouts of a network, by BERT's names for them."""


class ElectraPretrainingConfig(PreTrainedConfig):
    """The configuration of a joint model: generator, discriminator, and how the generator corrupts text.

    Args:
        generator, discriminator: configurations of the networks, or dicts of them. "Discriminator" is the full-size
            network, also where the objective trains it as a masked language model; `generator` is None for objectives
            without one. Only transformers leaves both out, to make an empty configuration for comparisons.
        objective: a name of `objectives.OBJECTIVES`.
        mask_token_id: id of [MASK].
        special_token_ids: ids that are never chosen.
        tie: which weights the networks share (tying.py); the objective's default if None.
        uniform_generator: samples are drawn uniformly from the vocabulary; `generator` is None then.
        values: the options of the objective, fields of `objectives.ObjectiveOptions` by their names in `KEYS`, where
            `temperature` is sampling_temperature. Each becomes an attribute; the objective has the value of those that
            are left out.
    Raises:
        UserError: a value is of another type or out of its range.
    """

    model_type = "electra-pretraining"
    # A dtype or an attention implementation given to the joint model reaches both networks by this.
    sub_configs = {"generator": AutoConfig, "discriminator": AutoConfig}

    generator: Any = None
    discriminator: Any = None
    objective: str = "electra"
    mask_token_id: int = -1
    special_token_ids: list[int] = field(default_factory=list)
    tie: Any = None
    uniform_generator: bool = False
    tie_word_embeddings: bool = True
    """Without this attribute transformers ties nothing, silently."""

    def __post_init__(self, **values: Any) -> None:
        check(self.objective in OBJECTIVES, "objective", self.objective, f"one of {', '.join(OBJECTIVES)}")
        check(self.tie in (None, *get_args(Tie)), "tie", self.tie, f"one of {', '.join(get_args(Tie))}")
        given_values = {name: values.pop(key, None) for name, key in KEYS.items()}
        objective = objective_of(self.objective, self.uniform_generator, **given_values)
        check_values(objective)
        for name, key in KEYS.items():
            setattr(self, key, getattr(objective, name))
        self.generator = _as_config(self.generator) if objective.has_generator else None
        self.discriminator = _as_config(self.discriminator)
        for network in filter(None, (self.generator, self.discriminator)):
            # A trained network may have the key of its earlier run.
            if objective.is_causal or hasattr(network, CAUSAL_KEY):
                setattr(network, CAUSAL_KEY, objective.is_causal)
        self.tie = self.tie or objective.tie
        if self.generator is None:  # `get_text_config()` is then this configuration, which needs the padding's id
            values.setdefault("pad_token_id", self.discriminator.pad_token_id)
        super().__post_init__(**values)

    def objective_with_values(self) -> Objective:
        """Return the objective with the values of this configuration, which are the user's."""
        values = {name: getattr(self, key) for name, key in KEYS.items()}
        return objective_of(self.objective, self.uniform_generator, tie=self.tie, **values)


AutoConfig.register(ElectraPretrainingConfig.model_type, ElectraPretrainingConfig, exist_ok=True)


def _as_config(config: PreTrainedConfig | dict[str, Any] | None) -> PreTrainedConfig:
    """Return the configuration of a network that is given as an object or a dict; None is an ELECTRA of default size.

    Raises:
        UserError: it is neither, or its `model_type` is unknown.
    """
    if isinstance(config, PreTrainedConfig):
        return config
    if not isinstance(config, Mapping | None):
        raise UserError(f"a network's configuration is {abridged(config)}; give one of transformers, or its values")
    values = dict(config or {})
    model_type = values.pop("model_type", "electra")
    if model_type not in CONFIG_MAPPING:
        raise UserError(f"a network is of the unknown type {model_type!r}; choose one of {', '.join(BACKBONES)}")
    return CONFIG_MAPPING[model_type](**values)


def network_config(
    *,
    embedding_size: int,
    hidden_size: int,
    num_attention_heads: int,
    model_type: str = "electra",
    **sizes: object,
) -> PreTrainedConfig:
    """Build the configuration of a network, a discriminator or a generator, from its sizes.

    Args:
        embedding_size: width of the embeddings; architectures without an embedding projection use the hidden size.
        model_type: a name of `BACKBONES`.
        sizes: other values by BERT's names: vocab_size, pad_token_id, num_hidden_layers, intermediate_size,
            max_position_embeddings (tokens of the longest text, with special tokens), dropouts, initializer_range.
    Raises:
        UserError: the heads do not divide the hidden size, or have a width that the architecture does not allow.
    """
    head_width, remainder = divmod(hidden_size, num_attention_heads)
    if remainder:
        raise UserError(
            f"hidden_size={hidden_size} is not a multiple of num_attention_heads={num_attention_heads}; "
            "change one of the two"
        )
    backbone = BACKBONES[model_type]
    if backbone.is_rotary and head_width % 2:
        raise UserError(
            f"a {model_type} with hidden_size={hidden_size} and num_attention_heads={num_attention_heads} has heads "
            f"of width {head_width}, which must be even; change one of the two"
        )
    values = {
        **sizes,
        "embedding_size": embedding_size if backbone.projection else hidden_size,
        "hidden_size": hidden_size,
        "num_attention_heads": num_attention_heads,
        **dict.fromkeys(backbone.as_wide_as_network, hidden_size),
        **backbone.settings,
    }
    renamed = {backbone.renamed.get(name, name): value for name, value in values.items() if name not in backbone.lacks}
    config = CONFIG_MAPPING[model_type](**renamed)
    config.max_position_embeddings += first_position(config)
    return config


def value_of(config: PreTrainedConfig, name: str) -> Any:
    """Return a value of any backbone's configuration, by BERT's name for the value; 0 for a dropout that it lacks."""
    backbone = BACKBONES[config.model_type]
    return 0.0 if name in backbone.lacks else getattr(config, backbone.renamed.get(name, name))


def option_of_dropout(path: str) -> str | None:
    """Return the option that gives a dropout of a network's configuration; None for other values.

    Args:
        path: path of the value in a configuration, such as generator.hidden_dropout_prob.
    """
    options = {name: name for name in DROPOUTS}
    for backbone in BACKBONES.values():
        options |= {renamed: name for name, renamed in backbone.renamed.items() if name in DROPOUTS}
    return options.get(path.rpartition(".")[2])


def set_rope_bases(networks: Sequence[PreTrainedConfig], full: float | None, local: float | None) -> None:
    """Change the bases of rotary positions in the configurations of networks that have such positions.

    Args:
        full, local: bases of layers with full and with local attention; None keeps what a configuration has.
    Raises:
        UserError: no configuration has such layers.
    """
    for option, layer_type, base in (
        ("rope_theta", "full_attention", full),
        ("local_rope_theta", "sliding_attention", local),
    ):
        if base is None:
            continue
        have_such_layers = [_set_rope_base(network, base, layer_type) for network in networks]
        if not any(have_such_layers):
            types = " and ".join(sorted({network.model_type for network in networks}))
            raise UserError(f"--{option} {base:g}: {types} has no layers with such positions; leave it out")


def _set_rope_base(config: PreTrainedConfig, base: float, layer_type: str) -> bool:
    """Set the rotary base of the layers of a type, such as full_attention; return False without such layers."""
    if not BACKBONES[config.model_type].is_rotary:
        return False
    parameters = copy.deepcopy(config.rope_parameters)
    is_plain = "rope_theta" in parameters and layer_type == "full_attention"  # all layers have full attention
    layer_parameters = parameters if is_plain else parameters.get(layer_type)
    if layer_parameters is None:
        return False
    layer_parameters["rope_theta"] = base
    config.rope_parameters = parameters
    return True


def embedding_width(config: PreTrainedConfig) -> int:
    """Return the width of the word embeddings of a network of any backbone."""
    if BACKBONES[config.model_type].projection is None:
        return config.hidden_size
    return getattr(config, "embedding_size", config.hidden_size)  # released DeBERTas have only the latter


def first_position(config: PreTrainedConfig) -> int:
    """Return the index of the first token's position in the table of positions, for any backbone."""
    if BACKBONES[config.model_type].counts_positions_behind_padding:
        return config.pad_token_id + 1
    return 0


def longest_text(config: PreTrainedConfig) -> int:
    """Return how many tokens, special tokens included, a network of any backbone accepts."""
    return config.max_position_embeddings - first_position(config)


def generator_config(
    discriminator: PreTrainedConfig,
    generator_size: float,
    generator_layer_size: float,
    *,
    model_type: str | None = None,
    num_attention_heads: int | None = None,
    intermediate_size: int | None = None,
) -> PreTrainedConfig:
    """Build the generator's configuration: the discriminator's, `generator_size` times as wide.

    The width is rounded to whole attention heads of the discriminator's head width. A generator narrower than one
    head has a single head of its own width, as in google-research/electra: 12.5 % of Small is 32 wide. Feed-forward
    layers are 4 times as wide as the generator, for size 1 as wide as the discriminator's. Word embeddings are as wide
    as the discriminator's where the architecture projects them.

    Args:
        discriminator: configuration of any backbone.
        generator_size: width relative to the discriminator's, > 0.
        generator_layer_size: number of layers relative to the discriminator's, > 0; at least one layer is built.
        model_type: a name of `BACKBONES`; the discriminator's if not given.
        num_attention_heads, intermediate_size: values in place of the rules above; None for the rules.
    Raises:
        UserError: the generator would be too narrow for one head.
    """
    hidden_size, heads = _generator_width_and_heads(discriminator, generator_size, num_attention_heads)
    layers = max(1, _rounded(generator_layer_size * discriminator.num_hidden_layers))
    if intermediate_size is None and generator_size == 1:
        intermediate_size = value_of(discriminator, "intermediate_size")
    names = ("vocab_size", "pad_token_id", "hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range")
    return network_config(
        **{name: value_of(discriminator, name) for name in names},
        embedding_size=embedding_width(discriminator),
        hidden_size=hidden_size,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=intermediate_size or 4 * hidden_size,
        max_position_embeddings=longest_text(discriminator),
        model_type=model_type or discriminator.model_type,
    )


def _generator_width_and_heads(
    discriminator: PreTrainedConfig, generator_size: float, num_attention_heads: int | None
) -> tuple[int, int]:
    """Return the generator's hidden size and number of attention heads by the rules of `generator_config`."""
    wanted_width = generator_size * discriminator.hidden_size
    head_width = discriminator.hidden_size // discriminator.num_attention_heads
    unit = SMALLEST_HEAD
    if num_attention_heads is not None:
        unit = num_attention_heads
    elif wanted_width >= head_width:
        unit = head_width
    hidden_size = max(num_attention_heads or 0, unit * _rounded(wanted_width / unit))
    if hidden_size < SMALLEST_HEAD:
        raise UserError(
            f"generator_size={generator_size} makes the generator {wanted_width:.1f} wide, too small for one head; "
            f"choose --generator_size of at least {SMALLEST_HEAD / discriminator.hidden_size:g}"
        )
    return hidden_size, num_attention_heads or max(1, hidden_size // head_width)


def _rounded(value: float) -> int:
    """Return the nearest integer, the larger one for halves, for which Python's `round` takes the even one."""
    return math.floor(value + 0.5)
