"""Pre-train a small ELECTRA on your own text files, from Python.

    python examples/pretrain.py corpus/*.txt
    python examples/pretrain.py corpus/*.txt --steps 12000        about an hour and a half on one core

The same command again continues where the first one stopped.
"""

import argparse

from electra import (
    ElectraForJointPretraining,
    ElectraTrainer,
    ElectraTrainingArguments,
    SegmentArguments,
    finish_run,
    tokenize_corpus,
    train_tokenizer,
)


def main() -> None:
    parser = argparse.ArgumentParser(description="Pre-train a small ELECTRA on text files.")
    parser.add_argument("files", nargs="+", help="text files; blank lines separate documents")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--vocab_size", type=int, default=4096)
    parser.add_argument("--output", default="output/example")
    arguments = parser.parse_args()

    tokenizer = train_tokenizer(arguments.files, vocab_size=arguments.vocab_size)
    corpus = tokenize_corpus(arguments.files, tokenizer)
    model = ElectraForJointPretraining.from_recipe("tiny", tokenizer)
    args = ElectraTrainingArguments(
        arguments.output, max_steps=arguments.steps, learning_rate=1e-3, per_device_train_batch_size=32
    )
    trainer = ElectraTrainer(
        model=model,
        args=args,
        train_dataset=corpus,
        processing_class=tokenizer,
        segments=SegmentArguments(max_length=128, segment_policy="packed"),
    )
    trainer.train()
    finish_run(trainer)  # arguments.output/discriminator, generator, metrics.json, report.html


if __name__ == "__main__":
    main()
