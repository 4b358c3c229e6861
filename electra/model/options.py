"""Options of the networks, and of the objective that they are trained with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

from electra.base.files import absolute_if_there
from electra.base.options import (
    AT_LEAST_8,
    NOT_EMPTY,
    Need,
    Options,
    Values,
    check_known,
    from_recipe,
    warn_without_effect,
)
from electra.core.backbones import BACKBONES, NEWER_BACKBONES, UNIFORM, Backbone
from electra.core.errors import UserError
from electra.core.objectives import (
    HAS_GENERATOR,
    KEYS,
    OBJECTIVES,
    Objective,
    ObjectiveOptions,
    Tie,
    by_objective,
    check_shares,
    objective_of,
    unread_options,
)
from electra.core.options import Condition, Resuming, option, options_with, rules_of
from electra.core.ranges import BELOW_ONE, POSITIVE, UP_TO_ONE
from electra.core.recipes import RECIPES


@dataclass(frozen=True)
class ModelArguments(Options):
    """Networks. A recipe sets their sizes and the options of training that depend on them; flags override it."""

    resuming: ClassVar[Resuming] = "kept"
    of_phase: ClassVar[bool] = True

    model_size: str = option(
        "small",
        "Recipe: architecture, masking, length, batch, learning rate, steps. small to large: the paper's table 6; "
        "tiny: an hour and a half on one CPU core; mini: about ten hours on two; modern-small: small's FLOPs with "
        "ModernBERT's layers.",
        choices=RECIPES,
        resuming="free",
        of_run=True,
        of_phase=False,
    )
    discriminator_type: str = option(
        "electra", "Architecture of the discriminator.", choices=[*BACKBONES, *NEWER_BACKBONES]
    )
    generator_type: str | None = option(
        None,
        "Architecture of the generator. uniform: no generator network, replacements are drawn uniformly from the "
        "vocabulary. Not set: the discriminator's.",
        choices=[*BACKBONES, *NEWER_BACKBONES, UNIFORM],
    )
    embedding_size: int = from_recipe(
        "embedding_size", "Width of the embeddings, if projected (electra, albert, deberta-v2).", POSITIVE
    )
    hidden_size: int = from_recipe("hidden_size", "Width of the discriminator.", POSITIVE)
    num_hidden_layers: int = from_recipe("num_hidden_layers", "Number of layers of the discriminator.", POSITIVE)
    num_attention_heads: int = from_recipe("num_attention_heads", "Attention heads of the discriminator.", POSITIVE)
    intermediate_size: int = from_recipe("intermediate_size", "Feed-forward width of the discriminator.", POSITIVE)
    max_position_embeddings: int = from_recipe(
        "max_position_embeddings", "Maximum length of the networks in tokens.", AT_LEAST_8
    )
    rope_theta: float | None = option(
        None,
        "Base of rotary positions, in layers with full attention; raise it with the length. Not set: the "
        "architecture's, or that of the trained networks.",
        POSITIVE,
        of_phase=False,
    )
    local_rope_theta: float | None = option(
        None, "The same in layers with local attention (modernbert, ultrabert).", POSITIVE, of_phase=False
    )
    hidden_dropout_prob: float = from_recipe(
        "hidden_dropout_prob", "Dropout of hidden states.", BELOW_ONE, resuming="recorded", inherited=True
    )
    attention_probs_dropout_prob: float = from_recipe(
        "attention_probs_dropout_prob", "Dropout of attention weights.", BELOW_ONE, resuming="recorded", inherited=True
    )
    initializer_range: float = option(
        0.02,
        "Standard deviation of initial weights; narrow networks learn faster with 0.06.",
        UP_TO_ONE,
    )
    initialization: Literal["normal", "truncated_normal", "original", "local"] = option(
        "normal",
        "Initial weights. normal: as in transformers; truncated_normal: within two standard deviations; original: "
        "truncated_normal, with Glorot's for the projection of the embeddings and the replaced-token head; local: "
        "normal, but two heads of a new discriminator (electra, modernbert) look at the neighbouring tokens.",
        of_phase=False,
    )
    generator_size: float = from_recipe(
        "generator_size",
        "Width of the generator relative to the discriminator's, rounded to whole heads.",
        POSITIVE,
        needs=(HAS_GENERATOR,),
    )
    generator_layer_size: float = from_recipe(
        "generator_layer_size",
        "Number of layers of the generator relative to the discriminator's.",
        POSITIVE,
        needs=(HAS_GENERATOR,),
    )
    generator_num_attention_heads: int | None = option(
        None,
        "Attention heads of the generator. Not set: heads as wide as the discriminator's.",
        POSITIVE,
        needs=(HAS_GENERATOR,),
    )
    generator_intermediate_size: int | None = option(
        None,
        "Feed-forward width of the generator. Not set: 4 x its width; with --generator_size 1 the discriminator's.",
        POSITIVE,
        needs=(HAS_GENERATOR,),
    )
    tie: Tie | None = by_objective(
        "tie",
        "Weights that the networks share. word: word embeddings; embeddings: also position and type embeddings and "
        "their LayerNorm; all: the whole encoder; gdes: word and position embeddings, with a table of differences on "
        "top, as in DeBERTa-v3.",
        None,
        needs=(HAS_GENERATOR,),
        inherited=True,
        of_same_objective=True,
    )
    init_discriminator: str | None = option(
        None,
        "Start from the discriminator of a run, model folder or Hub id, with its sizes and tokenizer.",
        NOT_EMPTY,
        absolute=absolute_if_there,
        of_run=True,
        of_phase=False,
    )
    init_generator: str | None = option(
        None,
        "Start from the generator of a run, model folder or Hub id, with its sizes and tokenizer. "
        "google/electra-small-generator is as wide as its discriminator, not a quarter as wide.",
        NOT_EMPTY,
        absolute=absolute_if_there,
        needs=(HAS_GENERATOR,),
        of_run=True,
        of_phase=False,
    )
    init_generator_layers: int | None = option(
        None,
        "Start from only this many of the first layers of --init_generator. Not set: all.",
        POSITIVE,
        needs=(HAS_GENERATOR,),
        of_run=True,
        of_phase=False,
    )


@dataclass(frozen=True)
class ObjectiveArguments(ObjectiveOptions, Options):
    """Corruption and losses, sections 2, 3.2 and 3.5 of the paper."""

    resuming: ClassVar[Resuming] = "kept"


# ---- what the options of an objective and its networks need


def given_objective(options: Any, generator_type: str | None) -> Objective:
    """Return the objective of the options, with the values that the user gives in place of its own.

    Args:
        options: `ObjectiveArguments`, or any object with the same attributes. Options that have no effect with this
            objective do not count.
        generator_type: value of the option of this name; "uniform" for no generator network.
    """
    is_uniform = generator_type == UNIFORM
    unread = unread_options(objective_of(options.objective, is_uniform))
    values = {name: getattr(options, name) for name in KEYS.keys() - unread}
    return objective_of(options.objective, is_uniform, **values)


def network_options(recipe: str, options: Values) -> tuple[ModelArguments, ObjectiveArguments]:
    """Return a recipe's options of the networks and of the objective, with `options` in place of its values.

    Options without effect are left out, and a warning names them.

    Raises:
        UserError: an unknown recipe or option, or options that do not go together.
    """
    if recipe not in RECIPES:
        raise UserError(f"there is no recipe {recipe!r}; the recipes are {', '.join(RECIPES)}")
    all_options = {f.name for group in (ModelArguments, ObjectiveArguments) for f in fields(group)}
    check_known(options, all_options - {*options_with("of_run", ModelArguments, ObjectiveArguments)})
    values = {**RECIPES[recipe], "model_size": recipe}
    sizes, objective = _groups_of({**values, **options})
    unused_options = warn_without_effect(MODEL_NEEDS, {**vars(sizes), **vars(objective)}, options)
    sizes, objective = _groups_of({**values, **{name: options[name] for name in options.keys() - unused_options}})
    check_objective(SimpleNamespace(**vars(sizes), **vars(objective)))
    return sizes, objective


def _groups_of(values: Values) -> tuple[ModelArguments, ObjectiveArguments]:
    """Return the groups with these values, of options by name; values of other options are left out."""
    sizes = ModelArguments(**{f.name: values[f.name] for f in fields(ModelArguments) if f.name in values})
    objective = {f.name: values[f.name] for f in fields(ObjectiveArguments) if f.name in values}
    return sizes, ObjectiveArguments(**objective)


def check_objective(options: Any) -> None:
    """Raise a UserError if options of the objective and of the networks do not go together.

    These are the objective, the shares of [MASK] and of random tokens, --tie, and the types of the networks, each of
    which transformers must have.

    Args:
        options: object with all fields of `ModelArguments` and `ObjectiveArguments` as attributes; what has no effect
            is as if it was not given.
    """
    objective = given_objective(options, options.generator_type)
    check_shares(objective)
    needs_network = objective.has_stages or objective.is_adversarial or objective.is_energy_based
    if options.generator_type == UNIFORM and needs_network:
        raise UserError(f"--generator_type uniform does not go with --objective {options.objective}; choose a network")
    if options.tie not in (None, "none") and objective.has_stages:
        raise UserError(f"--tie {options.tie} would change the frozen generator of two_stage; choose none")
    if options.tie == "gdes" and not objective.finds_replaced:
        raise UserError(f"--tie gdes is for a discriminator, not for --objective {options.objective}; choose another")
    for name in ("discriminator_type", "generator_type"):
        if getattr(options, name) in NEWER_BACKBONES:
            raise UserError(
                f"the installed transformers does not have --{name} {getattr(options, name)}; install a newer one"
            )


def _backbones(o: Any) -> list[Backbone]:
    """Return the backbones of the new networks, as far as the installed transformers has them."""
    types = (o.discriminator_type, o.generator_type or o.discriminator_type)
    return [BACKBONES[name] for name in types if name in BACKBONES]


def _may_have(o: Any, has: Callable[[Backbone], bool]) -> bool:
    """Return True if `has` holds for the backbone of a new network, or may for a trained one, not read yet."""
    backbones = _backbones(o)
    is_unknown = bool(o.init_discriminator or o.init_generator or not backbones)
    return is_unknown or any(map(has, backbones))


def _starts_from_generator(o: Any) -> bool:
    return OBJECTIVES[o.objective].has_stages and o.init_from_generator


def _starts_untrained(o: Any) -> bool:
    """Return True if the discriminator has initial weights of its own."""
    shares_trained = o.init_generator and o.tie != "none"
    return not (o.init_discriminator or shares_trained or _starts_from_generator(o))


def needs_of_objective(*groups: Any) -> list[Need]:
    """Return a `Need` for each condition that options of these groups declare, with all options that declare it."""
    names: dict[Condition, list[str]] = {}
    for group in groups:
        for f in fields(group):
            for condition in rules_of(f).needs:
                names.setdefault(condition, []).append(f.name)
    return [_need_of(condition, options) for condition, options in names.items()]


def _need_of(condition: Condition, names: Sequence[str]) -> Need:
    return Need(names, lambda o: condition.holds(given_objective(o, o.generator_type)), condition.reason)


MODEL_NEEDS = [
    *needs_of_objective(ModelArguments, ObjectiveArguments),
    Need(
        ("generator_type",),
        lambda o: OBJECTIVES[o.objective].has_generator,
        "--objective {objective} has no generator network",
    ),
    Need(("init_generator_layers",), lambda o: bool(o.init_generator), "it is for --init_generator"),
    Need(
        ("hidden_dropout_prob",),
        lambda o: _may_have(o, lambda backbone: "hidden_dropout_prob" not in backbone.lacks),
        "--discriminator_type {discriminator_type} has no dropout of hidden states",
    ),
    Need(
        ("rope_theta", "local_rope_theta"),
        lambda o: _may_have(o, lambda backbone: backbone.is_rotary),
        "--discriminator_type {discriminator_type} has no rotary positions",
    ),
    Need(
        ("embedding_size",),
        lambda o: o.embedding_size == o.hidden_size or any(backbone.projection for backbone in _backbones(o)),
        "embeddings of --discriminator_type {discriminator_type} are as wide as the network",
    ),
    Need(
        ("init_discriminator",),
        lambda o: not _starts_from_generator(o),
        "the discriminator starts from the generator, without --no_init_from_generator",
    ),
    Need(
        ("initialization",),
        lambda o: o.initialization != "local" or _starts_untrained(o),
        "weights of the discriminator are from --init_discriminator, or shared with --init_generator, or from the "
        "generator, without --no_init_from_generator",
    ),
]
"""Needs of the options of networks and objective, as far as these options alone decide them."""
