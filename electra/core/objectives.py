"""What is trained: an objective as one object, and the options of objectives. No torch; the losses are in losses.py.

`OBJECTIVES` are ELECTRA; the ablations of sections 3.2 and 3.5 and appendix F; `electric`, Electric of Clark et al.
(2020, arXiv:2012.08561), whose head gives energies, see `noise_logits`; and `causal`, BERT's "LTR" (Devlin et al.
2019, section 5.1). docs/options.md has them as a table.

An option of objectives has two lines: its value in `Objective`, and what a user may give in `ObjectiveOptions`, with
its range and the conditions under which it has an effect. The flags of the command, the values of
`ElectraPretrainingConfig`, the checks of both, what resuming accepts, and lists of options are made of these two.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

from electra.core.errors import UserError
from electra.core.options import Condition, option, rules_of
from electra.core.ranges import INSIDE, NOT_NEGATIVE, POSITIVE, SHARE, Range, check

Tie = Literal["none", "word", "embeddings", "all", "gdes"]
"""What generator and discriminator share."""

# ---- objectives


@dataclass(frozen=True)
class Objective:
    """An objective with the values of its options; the defaults of the fields are those of ELECTRA.

    An objective of `OBJECTIVES` has its own values, that of a model (`JointModel.objective`) those of the user.

    Args:
        name: value of --objective.
        summary: what is trained, for the help of --objective.
        meaning: what the main network's loss is, one sentence for reports and model cards.
        card: how the main network was trained, sentences for its model card.
        card_of_generator: how the generator was trained, sentences for its model card; "" without a generator, or if
            it is trained as in the paper.
        answers_probability: the sigmoid of the discriminator's output is the probability that a token was replaced;
            some scores are derived from this probability. False with another loss, or without a discriminator.
        has_threshold: an output of the discriminator above 0 says that a token was replaced, or is noise; False for a
            loss in which only differences of outputs mean something.
        loss: name of the discriminator's loss in `losses.DISCRIMINATOR_LOSSES`.
        has_generator: a small network fills the chosen positions; without one the main network sees [MASK].
        finds_replaced: the main network is a discriminator; otherwise it predicts the original tokens.
        at_all_tokens: the main loss is over all real tokens; otherwise over the chosen positions. A causal language
            model chooses all but the special tokens.
        has_known_rates: loss and AUC of a discriminator that has learned are known, so a warning can say that one has
            not learned yet.
        has_stages: the generator is trained alone, then the discriminator alone; they share no weights.
        is_adversarial: the generator is trained by `adversarial_nll` instead of `generator_nll`.
        draws_uniformly: samples are drawn uniformly from the vocabulary, without a network; see `objective_of`.
        is_energy_based: the head gives energies, trained by noise-contrastive estimation with the generator's samples
            as noise. The generator must not see the tokens that it predicts, so all chosen ones become [MASK].
        is_causal: the main network predicts each token from those before it; all but special tokens are chosen.
        tie: what the networks share if the user does not say it.
        mlm_probability: share of the tokens that is chosen.
        mlm_replacement_probability, mlm_random_probability: shares of the chosen tokens that become [MASK] and a
            random token; the rest is kept. BERT uses 80/10/10; the original uses 85/15 for its generator.
        discriminator_weight: lambda. The paper's 50 balances a binary loss with one over the vocabulary. Lambda is 1
            for two losses over the vocabulary, for which the paper gives no weight, and where one loss is trained at a
            time.
        generator_steps: optimizer steps of the first of two stages; 0 for half of all steps, and without stages.
        init_from_generator: the second of two stages starts from the equally large generator. Commands have another
            default, that of `ObjectiveOptions`.
        temperature: temperature of the generator's samples.
        disallow_correct: the generator may not sample the original token.
    """

    name: str
    summary: str
    meaning: str
    card: str
    answers_probability: bool
    has_threshold: bool = True
    card_of_generator: str = ""
    loss: str = "cross_entropy"
    has_generator: bool = True
    finds_replaced: bool = True
    at_all_tokens: bool = True
    has_known_rates: bool = False
    has_stages: bool = False
    is_adversarial: bool = False
    draws_uniformly: bool = False
    is_energy_based: bool = False
    is_causal: bool = False
    tie: Tie = "embeddings"
    mlm_probability: float = 0.15
    mlm_replacement_probability: float = 0.85
    mlm_random_probability: float = 0.0
    discriminator_weight: float = 50.0
    generator_steps: int = 0
    init_from_generator: bool = False
    temperature: float = 1.0
    disallow_correct: bool = False

    @property
    def sees_samples(self) -> bool:
        """Return True if the main network sees samples at the chosen positions, False if [MASK] or originals."""
        return self.has_generator or self.draws_uniformly

    @property
    def shows_masks(self) -> bool:
        """Return True if a network predicts the chosen tokens from a text with [MASK] at most of them."""
        return self.has_generator or not (self.draws_uniformly or self.is_causal)

    @property
    def masks_all(self) -> bool:
        """Return True if all chosen tokens become [MASK]."""
        return self.mlm_replacement_probability == 1 and self.mlm_random_probability == 0

    @property
    def has_copy_gate(self) -> bool:
        """Return True for All-Tokens MLM, where nearly every answer is the input token itself."""
        return self.at_all_tokens and not self.finds_replaced

    @property
    def main_network(self) -> str:
        """Return the name of the main network in logs and reports."""
        if self.finds_replaced:
            return "discriminator"
        return "causal LM" if self.is_causal else "masked LM"

    @cached_property
    def loss_name(self) -> str:
        """Return the name of the main network's loss in logs and metrics."""
        if self.finds_replaced:
            return "discriminator_loss"
        if self.at_all_tokens:
            return "all_tokens_loss"
        return "mlm_loss"


BASE_RATE = (
    "Compare it with the entropy of the share of replaced tokens, which the best guess without looking at the text "
    "reaches."
)
"""The second sentence of `Objective.meaning` of a loss whose least value without context is known."""
NO_MASK = "It was trained on replaced tokens and never saw [MASK]."
"""A sentence of `Objective.card` of masked language models that see samples."""

OBJECTIVES = {
    objective.name: objective
    for objective in (
        Objective(
            name="electra",
            summary="detect replaced tokens, at all positions",
            meaning=f"mean binary cross-entropy over all tokens. {BASE_RATE}",
            card="It was trained on the samples of a small generator, which was trained together with it.",
            answers_probability=True,
            has_known_rates=True,
        ),
        Objective(
            name="electra_15",
            summary="only at the chosen positions",
            meaning=f"mean binary cross-entropy over the chosen positions. {BASE_RATE}",
            card="It was trained at the positions that the generator had filled, not at the other tokens.",
            answers_probability=True,
            at_all_tokens=False,
        ),
        Objective(
            name="mlm",
            summary="BERT, one network and no generator",
            meaning="mean of -log p(original token) over the chosen positions.",
            card="It was trained like BERT, with [MASK] at most of the predicted positions.",
            answers_probability=False,
            has_generator=False,
            finds_replaced=False,
            at_all_tokens=False,
            mlm_replacement_probability=0.8,
            mlm_random_probability=0.1,
            discriminator_weight=1.0,
        ),
        Objective(
            name="replace_mlm",
            summary="predict the original tokens from the generator's samples",
            meaning="mean of -log p(original token) over the chosen positions, where the network sees samples.",
            card=NO_MASK,
            answers_probability=False,
            finds_replaced=False,
            at_all_tokens=False,
            discriminator_weight=1.0,
        ),
        Objective(
            name="all_tokens_mlm",
            summary="predict every token, with a copy gate",
            meaning="mean of -log p(original token) over all tokens, which the copy gate may copy from the input.",
            card=f"{NO_MASK} Its copy gate is in the checkpoints only, not in this folder.",
            answers_probability=False,
            finds_replaced=False,
            discriminator_weight=1.0,
        ),
        Objective(
            name="two_stage",
            summary="train the generator alone, then the discriminator alone",
            meaning=f"mean binary cross-entropy over all tokens, of the second stage. {BASE_RATE}",
            card="It was trained on the samples of a generator that was trained before it.",
            answers_probability=True,
            card_of_generator="It was trained first, alone, and does not share its embeddings.",
            has_stages=True,
            tie="none",
            discriminator_weight=1.0,
        ),
        Objective(
            name="adversarial",
            summary="train the generator to fool the discriminator",
            meaning=f"mean binary cross-entropy over all tokens, which the generator raises. {BASE_RATE}",
            card="It was trained on the samples of a generator that learned to mislead it.",
            answers_probability=True,
            card_of_generator="It was trained by REINFORCE on the other network's mistakes alone, without the "
            "original tokens. Its baseline is in the checkpoints only, not in this folder.",
            is_adversarial=True,
        ),
        Objective(
            name="electric",
            summary="energies by noise-contrastive estimation, for log probabilities in one pass",
            meaning="mean binary cross-entropy of telling the generator's samples from the text at the chosen "
            "positions; log 2 without looking at the text.",
            card="It was trained as Electric: the output of its head is minus the log probability of a token given "
            "the others, not the log odds of its replacement.",
            answers_probability=False,
            at_all_tokens=False,
            is_energy_based=True,
            mlm_replacement_probability=1.0,
        ),
        Objective(
            name="causal",
            summary="predict each token from those before it, one network without [MASK]",
            meaning="mean of -log p(token) over all tokens but special ones, from the tokens before each.",
            card="It was trained from left to right and never saw [MASK].",
            answers_probability=False,
            has_generator=False,
            finds_replaced=False,
            at_all_tokens=False,
            is_causal=True,
            mlm_probability=1.0,
            mlm_replacement_probability=0.0,
            discriminator_weight=1.0,
        ),
    )
}
"""Objectives by the value of --objective, each with its differences from ELECTRA."""


def objective_of(name: str, uniform_generator: bool = False, **values: Any) -> Objective:
    """Return an objective by name with the values that a user gives in place of its own.

    Args:
        uniform_generator: samples are drawn uniformly from the vocabulary. Only the main loss remains, so lambda is 1.
        values: fields of `Objective`; None for the objective's own value.
    """
    objective = OBJECTIVES[name]
    if uniform_generator:
        objective = replace(objective, has_generator=False, draws_uniformly=True, discriminator_weight=1.0)
    given_values = {field: value for field, value in values.items() if value is not None}
    return replace(objective, **given_values) if given_values else objective


# ---- options of objectives

HAS_GENERATOR = Condition(
    lambda objective: objective.has_generator,
    "--objective {objective}, or a uniform generator, has no generator network",
)
MASKS = Condition(lambda objective: not objective.is_causal, "--objective {objective} masks nothing")
KEEPS_TOKENS = Condition(
    lambda objective: not objective.draws_uniformly, "--generator_type uniform replaces all chosen tokens"
)
MASKS_SHARES = Condition(
    lambda objective: not objective.is_energy_based or objective.masks_all,
    "an --objective of energies masks all chosen tokens",
)
TRAINS_TOGETHER = Condition(
    lambda objective: not objective.has_stages, "--objective {objective} trains one network at a time"
)
HAS_STAGES = Condition(lambda objective: objective.has_stages, "--objective {objective} has no stages")
SAMPLES_FREELY = Condition(
    lambda objective: not objective.is_adversarial and not objective.is_energy_based,
    "--objective {objective} needs unmodified samples of the generator",
)
"""Conditions of the options in this module."""
OF_MASKS: dict[str, Any] = {"of_corruption": True, "inherited": True}
"""Rules of the options that choose and mask positions, beside their conditions."""
OF_SHARES = (MASKS, KEEPS_TOKENS, MASKS_SHARES)
"""Conditions of the options that say what the chosen positions become."""
OF_SAMPLES = (HAS_GENERATOR, SAMPLES_FREELY)
"""Conditions of the options of the generator's samples."""


def by_objective(name: str, help: str, valid: Range | None, needs: Sequence[Condition], **rules: Any) -> Any:
    """Return the field of an option whose default depends on the objective; the help lists the defaults.

    Args:
        name: name of the field of `Objective` that has the defaults.
        help: text of the help before the defaults.
        valid, needs, rules: see `Rules`.
    """
    usual = str(getattr(Objective, name)).removesuffix(".0")
    others: dict[str, list[str]] = {}
    for objective in OBJECTIVES.values():
        value = str(getattr(objective, name)).removesuffix(".0")
        if value != usual and all(need.holds(objective) for need in needs):
            others.setdefault(value, []).append(objective.name)
    values = [usual, *(f"{value} with {', '.join(names)}" for value, names in others.items())]
    return option(None, f"{help} Not set: {'; '.join(values)}.", valid, needs=needs, **rules)


@dataclass(frozen=True)
class ObjectiveOptions:
    """What a user may say about an objective; None stands for the objective's own value."""

    of_phase: ClassVar[bool] = True

    objective: str = option(
        "electra",
        "; ".join(f"{objective.name}: {objective.summary}" for objective in OBJECTIVES.values()) + ".",
        choices=OBJECTIVES,
        always_recorded=True,
    )
    mlm_probability: float = option(
        Objective.mlm_probability,
        "Share of the tokens that are chosen for masking.",
        INSIDE,
        always_recorded=True,
        needs=(MASKS,),
        **OF_MASKS,
    )
    mlm_replacement_probability: float | None = by_objective(
        "mlm_replacement_probability",
        "Share of the chosen tokens that become [MASK].",
        SHARE,
        OF_SHARES,
        of_same_objective=True,
        **OF_MASKS,
    )
    mlm_random_probability: float | None = by_objective(
        "mlm_random_probability", "Share of the chosen tokens that become random tokens.", SHARE, OF_SHARES, **OF_MASKS
    )
    discriminator_weight: float | None = by_objective(
        "discriminator_weight",
        "Weight of the discriminator's loss relative to the generator's, lambda in the paper.",
        NOT_NEGATIVE,
        (HAS_GENERATOR, TRAINS_TOGETHER),
    )
    generator_gate: list[str] = option(
        [],
        "METRIC THRESHOLD: train the generator only while METRIC of the last held-out evaluation, such as "
        "discriminator_auc, is at least THRESHOLD. It is trained until the first evaluation after step 0.",
        needs=(HAS_GENERATOR, TRAINS_TOGETHER),
        of_run=True,
    )
    generator_steps: int | None = option(
        None, "Steps of the first of two_stage's stages. Not set: half of all.", POSITIVE, needs=(HAS_STAGES,)
    )
    init_from_generator: bool = option(
        True, "Start the second stage of two_stage from the equally large generator.", needs=(HAS_STAGES,)
    )
    temperature: float = option(
        1.0,
        "Temperature of the generator's samples: divides the logits.",
        POSITIVE,
        needs=OF_SAMPLES,
        of_corruption=True,
    )
    disallow_correct: bool = option(
        False, "The generator may not sample the original token.", needs=OF_SAMPLES, of_corruption=True
    )


OF_STAGES = tuple(f.name for f in fields(ObjectiveOptions) if HAS_STAGES in rules_of(f).needs)
"""Options of an objective that trains one network after the other."""
RENAMED = {"temperature": "sampling_temperature"}
"""Option -> its key in config.json, where transformers drops `temperature` as an option of generating text."""
KEYS = {
    f.name: RENAMED.get(f.name, f.name)
    for f in fields(ObjectiveOptions)
    if f.name != "objective" and not rules_of(f).of_run
}
"""Option of an objective -> its key in config.json and its attribute of `ElectraPretrainingConfig`."""


def unread_options(objective: Objective) -> frozenset[str]:
    """Return the names of the fields of `ObjectiveOptions` that have no effect with an objective."""
    return frozenset(
        f.name
        for f in fields(ObjectiveOptions)
        if not all(condition.holds(objective) for condition in rules_of(f).needs)
    )


# ---- checks

SHARE_TOLERANCE = 1e-9
"""Difference up to which a sum of shares counts as 1."""


def check_values(objective: Objective) -> None:
    """Refuse values of another type, or out of their range, which would fail in the first step or never.

    An objective's own value is always possible, such as `mlm_probability` 1 of `causal`.

    Raises:
        UserError: a value is refused; the message names its key in config.json.
    """
    own_values = OBJECTIVES[objective.name]
    valid = {f.name: rules_of(f).valid for f in fields(ObjectiveOptions)}
    for name, key in KEYS.items():
        value, own_value = getattr(objective, name), getattr(own_values, name)
        if isinstance(own_value, bool):
            check(isinstance(value, bool), key, repr(value), "true or false")
            continue
        allowed = valid[name]
        is_whole = isinstance(own_value, int)
        value_type, expected = (int, "a whole number") if is_whole else (int | float, "a number")
        is_number = isinstance(value, value_type) and not isinstance(value, bool)
        is_valid = is_number and (allowed is None or allowed.holds(value) or value == own_value)
        check(is_valid, key, repr(value), expected + (f", {allowed.expected}" if allowed else ""))
    check_shares(objective)


def check_shares(objective: Objective) -> None:
    """Raise a UserError if the shares of [MASK] and of random tokens add up to more than 1."""
    masked, random = objective.mlm_replacement_probability, objective.mlm_random_probability
    if masked + random > 1 + SHARE_TOLERANCE:
        raise UserError(
            f"--mlm_replacement_probability {masked:g} and --mlm_random_probability {random:g} add up to more than 1; "
            "lower one of them"
        )
