"""Fine-tune an encoder on your own texts with labels, from Python, and answer new texts with it.

    python examples/fine_tune.py tiny-en reviews.csv "What a film!" "A waste of time."
    python examples/fine_tune.py google/electra-small-discriminator reviews.csv --seeds 5

reviews.csv has a header with the columns text and label. The same command again trains only missing seeds.
"""

import argparse

from electra import fine_tune, predict, replaced_token_probabilities


def main() -> None:
    parser = argparse.ArgumentParser(description="Fine-tune an encoder on texts with labels.")
    parser.add_argument("model", help="a run, a checkpoint, a model folder or a Hub id")
    parser.add_argument("train", help="texts with labels: .csv, .tsv, .jsonl or .parquet")
    parser.add_argument("texts", nargs="*", help="new texts")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=float, default=3.0)
    parser.add_argument("--output", default="output")
    arguments = parser.parse_args()

    tuned = fine_tune(
        arguments.model,
        arguments.train,
        num_seeds=arguments.seeds,
        num_train_epochs=arguments.epochs,
        output_dir=arguments.output,
    )
    print(f"medians over {len(tuned.results)} seeds:")
    for metric, score in tuned.scores.items():
        print(f"    {metric}: {score}")
    print(f"the model is in {tuned.model_folder}; {tuned.folder / 'report.html'} has the scores of each seed")

    for text, answer in zip(arguments.texts, predict(tuned, arguments.texts), strict=True):
        print(f"{text}  ->  {answer}")  # the class and its probability; a number has none
    for tokens in replaced_token_probabilities(arguments.texts, arguments.model):
        worst = max(tokens, key=lambda token: token.probability)
        print(f"most suspicious: {worst.piece!r} ({worst.probability:.2f})")


if __name__ == "__main__":
    main()
