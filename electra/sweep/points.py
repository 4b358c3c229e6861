"""Which points a sweep visits: a grid in order, random ones, or ones chosen from the results so far. No torch.

A point is a function of the sweep, its seed, its number and, if the search is Bayesian, the results there are. So a
sweep that was killed goes on as if it had not been.
"""

import math
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from electra.errors import UserError
from electra.sweep.definition import Sweep

FIRST_RANDOM = 5
"""Points of a Bayesian search that are drawn at random before a model of the results is asked."""
_CANDIDATES = 2000


class Proposal(NamedTuple):
    """Values of a point, and where they lie: a quantile of each swept parameter's distribution, () in a grid."""

    values: dict[str, Any]
    quantiles: tuple[float, ...]


class Observed(NamedTuple):
    """An earlier point of a Bayesian search.

    Args:
        quantiles: as proposed.
        score: the metric; None if undefined, or not yet known.
        is_finished: whether it has been run.
    """

    quantiles: tuple[float, ...]
    score: float | None
    is_finished: bool


def number_of_points(sweep: Sweep, max_runs: int | None) -> int:
    """How many points there will be.

    Raises:
        UserError: a search without an end.
    """
    limits = [limit for limit in (sweep.run_cap, max_runs) if limit is not None]
    if sweep.method == "grid":
        limits.append(math.prod(len(p.values or ()) for p in sweep.parameters))
    if not limits:
        raise UserError(f"a {sweep.method} search has no end; add --max_runs N, or run_cap: N in {sweep.path}")
    return min(limits)


def propose(sweep: Sweep, number: int, seed: int, observed: Sequence[Observed] = ()) -> Proposal:
    """The point of this number, from 1 on.

    Args:
        seed: of the search.
        observed: earlier points, for a Bayesian search.
    """
    if sweep.method == "grid":
        return Proposal(_grid_point(sweep, number - 1), ())
    source = np.random.default_rng((seed, number))
    quantiles = source.random(len(sweep.swept))
    if sweep.method == "bayes" and sum(o.is_finished for o in observed) >= FIRST_RANDOM:
        quantiles = _most_promising(source.random((_CANDIDATES, len(sweep.swept))), observed, sweep.goal)
    chosen = dict(zip((p.name for p in sweep.swept), quantiles.tolist(), strict=True))
    values = {p.name: p.at(chosen.get(p.name, 0.0)) for p in sweep.parameters}
    return Proposal(values, tuple(chosen.values()))


def _grid_point(sweep: Sweep, index: int) -> dict[str, Any]:
    """Of the product of all values, the last parameter running fastest."""
    point = {}
    for parameter in reversed(sweep.parameters):
        values = parameter.values or ()
        index, place = divmod(index, len(values))
        point[parameter.name] = values[place]
    return {parameter.name: point[parameter.name] for parameter in sweep.parameters}


def _most_promising(candidates: NDArray[np.float64], observed: Sequence[Observed], goal: str) -> NDArray[np.float64]:
    """Of candidates (N, P), the one with the largest expected improvement under a Gaussian process, (P,).

    As wandb's Bayesian search: a Matern kernel on quantiles. Points that are undefined count as the worst, those that
    are running as what the process expects of them, so that parallel ones keep apart.
    """
    from scipy.stats import norm
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import Matern, WhiteKernel

    sign = 1.0 if goal == "maximize" else -1.0
    finished = [o for o in observed if o.is_finished]
    defined = [sign * o.score for o in finished if o.score is not None]
    if not defined:
        return candidates[0]
    scores = np.array([min(defined) if o.score is None else sign * o.score for o in finished])
    scale = scores.std() or 1.0
    scores = (scores - scores.mean()) / scale
    places = np.array([o.quantiles for o in finished])
    kernel = Matern(nu=2.5, length_scale_bounds=(0.05, 10)) + WhiteKernel(1e-2, (1e-5, 1.0))
    model = GaussianProcessRegressor(kernel, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(places, scores)
        running = [o.quantiles for o in observed if not o.is_finished]
        if running:
            expected = model.predict(np.array(running))
            places, scores = np.vstack([places, running]), np.concatenate([scores, expected])
            model = GaussianProcessRegressor(model.kernel_, optimizer=None).fit(places, scores)
        mean, deviation = model.predict(candidates, return_std=True)
        best = model.predict(places).max()
    # What is uncertain is the metric without the noise of a single run, which no further point would take away.
    deviation = np.sqrt(np.maximum(deviation**2 - model.kernel_.k2.noise_level, 1e-12))
    gain = mean - best
    improvement = gain * norm.cdf(gain / deviation) + deviation * norm.pdf(gain / deviation)
    chosen: NDArray[np.float64] = candidates[int(np.argmax(improvement))]
    return chosen
