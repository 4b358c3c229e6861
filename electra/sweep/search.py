"""The points of a sweep: a grid in order, random points, or points proposed by optuna from the results. No torch.

A point is a function of the sweep, its seed, its number and, in a Bayesian search, the results so far. A killed sweep
therefore continues with the same points.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from electra.errors import UserError
from electra.sweep.definition import Parameter, Sweep

FIRST_RANDOM = 5
"""Number of results that a Bayesian search needs before it uses them; until then, points are random."""


class Observed(NamedTuple):
    """An earlier point of a Bayesian search.

    Args:
        score: the metric; None if undefined or not known yet.
        is_finished: False while the point is running.
    """

    values: dict[str, Any]
    score: float | None
    is_finished: bool


def number_of_points(sweep: Sweep, max_runs: int | None) -> int:
    """The number of points of the sweep.

    Raises:
        UserError: the search has no end.
    """
    limits = [limit for limit in (sweep.run_cap, max_runs) if limit is not None]
    if sweep.method == "grid":
        limits.append(math.prod(len(p.values or ()) for p in sweep.parameters))
    if not limits:
        raise UserError(f"a {sweep.method} search has no end; add --max_runs N, or run_cap: N in {sweep.path}")
    return min(limits)


def propose(sweep: Sweep, number: int, seed: int, observed: Sequence[Observed] = ()) -> dict[str, Any]:
    """The values of a point; `number` counts from 1.

    Raises:
        UserError: a Bayesian search without optuna.
    """
    if sweep.method == "grid":
        index, point = number - 1, {}
        for parameter in reversed(sweep.parameters):  # the last parameter varies fastest
            values = parameter.values or ()
            index, position = divmod(index, len(values))
            point[parameter.name] = values[position]
    elif sweep.method == "bayes" and sum(o.is_finished for o in observed) >= FIRST_RANDOM:
        point = _propose_by_optuna(sweep, number, seed, observed)
    else:
        quantiles = np.random.default_rng((seed, number)).random(len(sweep.swept)).tolist()
        point = {p.name: p.at(quantile) for p, quantile in zip(sweep.swept, quantiles, strict=True)}
    return {p.name: point[p.name] if p.name in point else p.at(0.0) for p in sweep.parameters}


def _propose_by_optuna(sweep: Sweep, number: int, seed: int, observed: Sequence[Observed]) -> dict[str, Any]:
    """A proposal of the tree-structured Parzen estimator.

    The study is rebuilt from the results each time. Undefined results count as the worst; running points keep new
    ones away.
    """
    optuna = import_optuna()
    distributions = {p.name: _distribution(optuna, p) for p in sweep.swept}
    direction = sweep.goal
    sampler = optuna.samplers.TPESampler(
        seed=int(np.random.SeedSequence((seed, number)).generate_state(1)[0]),
        n_startup_trials=FIRST_RANDOM,
        multivariate=True,
        constant_liar=True,
    )
    study = optuna.create_study(sampler=sampler, direction=direction)
    scores = [o.score for o in observed if o.score is not None]
    worst = (min if direction == "maximize" else max)(scores, default=0.0)
    for one in observed:
        study.add_trial(
            optuna.trial.create_trial(
                state=optuna.trial.TrialState.COMPLETE if one.is_finished else optuna.trial.TrialState.RUNNING,
                params={p.name: _encode(p, one.values[p.name]) for p in sweep.swept},
                distributions=distributions,
                value=None if not one.is_finished else worst if one.score is None else one.score,
            )
        )
    params = study.ask(distributions).params
    return {p.name: params[p.name] if p.values is None else p.values[params[p.name]] for p in sweep.swept}


def import_optuna() -> Any:
    """optuna with its log messages turned off.

    Raises:
        UserError: it is not installed.
    """
    try:
        import optuna
    except ImportError as error:
        raise UserError(
            "a bayes search needs optuna, which is not installed; run: pip install 'electra[sweep]'"
        ) from error
    import warnings

    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def _distribution(optuna: Any, parameter: Parameter) -> Any:
    """Finite parameters are proposed as positions in their values."""
    if parameter.values is None:
        return optuna.distributions.FloatDistribution(parameter.low, parameter.high, log=parameter.is_log)
    if parameter.is_ordered:
        return optuna.distributions.IntDistribution(0, len(parameter.values) - 1)
    return optuna.distributions.CategoricalDistribution(range(len(parameter.values)))


def _encode(parameter: Parameter, value: Any) -> Any:
    if parameter.values is None:
        return min(max(value, parameter.low), parameter.high)  # exp(log(high)) may be above it
    if isinstance(parameter.values, range):
        return parameter.values.index(value)
    return [repr(possible) for possible in parameter.values].index(repr(value))  # 0 and False are different choices
