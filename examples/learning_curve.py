"""How many labels does it take? Scores over the number of labelled texts, with and without pre-training.

    python examples/learning_curve.py tiny-en reviews.csv --fractions .05 .2 1
    python examples/learning_curve.py output/example reviews.csv --seeds 5 --epochs 10 --output output/curve

Each point is an evaluation of its own, in a folder such as pretrained-0.05; the same command again makes only the runs
that are missing. learning_curve.png shows medians over the seeds with their standard deviations, beside what needs no
network. `electra report FOLDER FOLDER ...` makes a page of the points.
"""

import argparse
import json
import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from electra import FineTuned, fine_tune


class Point(NamedTuple):
    """A point of a curve: the number of labelled texts, median score in percent and its standard deviation."""

    texts: int
    score: float
    std: float


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Draw scores over the number of labelled texts.")
    parser.add_argument("model", help="a run, a checkpoint, a model folder or a Hub id")
    parser.add_argument("train", help="texts with labels: .csv, .tsv, .jsonl or .parquet")
    parser.add_argument("--fractions", nargs="+", type=float, default=[0.05, 0.2, 1.0], help="shares of the texts")
    parser.add_argument("--metric", default="accuracy", help="accuracy, micro_f1, spearman ...; default: accuracy")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=float, default=3.0)
    parser.add_argument("--output", default="output/curve")
    arguments = parser.parse_args(argv)

    starts: dict[str, Any] = {
        "pretrained": {"model": arguments.model},
        "scratch": {"model": None, "from_scratch": arguments.model},
    }
    curves: dict[str, list[Point]] = defaultdict(list)
    for start, encoder in starts.items():
        for fraction in arguments.fractions:
            tuned = fine_tune(
                **encoder,
                train_dataset=arguments.train,
                train_fractions=[fraction],
                num_seeds=arguments.seeds,
                num_train_epochs=arguments.epochs,
                save_model=False,
                output_dir=arguments.output,
                experiment_name=f"{start}-{fraction:g}",
            )
            texts = tuned.results[0].rows["train"]
            curves[start].append(point_of(texts, [result.metrics[arguments.metric] for result in tuned.results]))
            if start == "pretrained":  # without a network, the start makes no difference
                for name, scores in baselines_of(tuned, arguments.metric).items():
                    curves[name].append(point_of(texts, scores))
    for name, points in curves.items():
        print(name, *(f"{point.texts}: {point.score:.1f} ± {point.std:.1f}" for point in points), sep="   ")
    picture = Path(arguments.output) / "learning_curve.png"
    draw(curves, arguments.metric).savefig(picture)
    print(f"the picture is {picture}")


def point_of(texts: int, scores: Sequence[float | None]) -> Point:
    """Return the point of the scores of all seeds, shares in [0, 1]; an undefined score counts as 0."""
    percent = [100 * (score or 0.0) for score in scores]
    return Point(texts, statistics.median(percent), statistics.stdev(percent) if len(percent) > 1 else 0.0)


def baselines_of(tuned: FineTuned, metric: str) -> dict[str, list[float]]:
    """Return the scores of each answer that needs no network, such as TF-IDF, by name: one for each seed."""
    scores = defaultdict(list)
    for result in tuned.results:
        path = tuned.folder / "predictions" / f"{result.task}-{result.seed}-baselines.json"
        for name, metrics in json.loads(path.read_text(encoding="utf-8")).items():
            scores[name].append(metrics[metric])
    return scores


def draw(curves: dict[str, list[Point]], metric: str) -> Figure:
    """Return the picture of curves by name, with standard deviations as error bars."""
    figure = Figure(figsize=(5.4, 3.6), dpi=160, layout="constrained")
    axes = figure.subplots()
    for name, points in curves.items():
        texts, scores, errors = zip(*points, strict=True)
        axes.errorbar(texts, scores, errors, label=name, marker="o", capsize=3)
    axes.set(xscale="log", xlabel="labelled texts", ylabel=f"{metric}, percent", ylim=(0, None))
    axes.grid(alpha=0.25)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


if __name__ == "__main__":
    main()
