"""What a release leaves on a user's disk, in one small folder, for tests/integration/test_earlier_release.py.

    python -m benchmarks.earlier_release COMMIT tests/fixtures/earlier_release

corpus.jsonl, tokens/        text with twins of documents, and its token cache
run/                         a run that was killed behind its checkpoint 8 of 12 steps
networks/                    discriminator/ and generator/ of the same run, undisturbed
train.csv, dev.csv           texts with labels
evaluation/                  an evaluation that was killed after two seeds of three, with a saved model
texts.jsonl                  texts without labels
expected.json                fingerprints of the text, the log of the whole run, answers, results of all seeds
expected.npz                 logits of the networks on fixed ids, and of the evaluation's seeds on dev.csv

Nothing is dropped out, all is computed in float32, so that other processors compute almost the same numbers.
"""

import argparse
import json
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.compare_commits import checkout_of
from benchmarks.pins import content_of, logits_of
from benchmarks.sides import Side

RUN: dict[str, Any] = {
    "vocab_size": 120, "embedding_size": 8, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
    "intermediate_size": 32, "max_position_embeddings": 32, "generator_size": 0.5, "max_length": 16,
    "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0, "bf16": "false", "seed": 3,
    "per_device_train_batch_size": 4, "learning_rate": 1e-3, "warmup_steps": 2, "max_steps": 12, "logging_steps": 1,
    "eval_steps": 6, "save_steps": 8, "initializer_range": 0.2, "validation_fraction": 0.2, "test_fraction": 0.1,
}  # fmt: skip
"""Options of the run of pre-training."""
EVALUATION: dict[str, Any] = {
    "num_seeds": 3, "num_train_epochs": 4, "per_device_train_batch_size": 8, "learning_rate": 1e-2, "head_dropout": 0,
    "layerwise_lr_decay": 1, "task_name": "reviews", "max_length": 16, "bf16": "false", "save_model": True,
}  # fmt: skip
"""Options of the evaluation."""
AROUND = ("{}", " {}", "{}\n", "\t{}", "\N{NO-BREAK SPACE}{}")
"""Formats of a document's twin: white space around its text."""


def write_texts(folder: Path) -> None:
    """Write the corpus, in which a third of the documents have a twin, and tables of texts."""
    source = random.Random(0)
    words = ["".join(source.choices("abcdefgh", k=source.randint(2, 5))) for _ in range(60)]
    texts = [" ".join(source.choices(words, k=source.randint(8, 30))) for _ in range(45)]
    twins = [source.choice(AROUND).format(text) for text in texts[:15]]
    rows = [{"text": text} for text in [*texts, *twins]]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    def text(row: int) -> str:
        return " ".join([*[words[row % 2]] * 3, *source.choices(words[2:], k=3)])

    for name, count in (("train", 40), ("dev", 16)):
        lines = [f"{text(row)},{('bad', 'good')[row % 2]}" for row in range(count)]
        (folder / f"{name}.csv").write_text("\n".join(["text,label", *lines]) + "\n", encoding="utf-8")
    rows = [{"text": text(row)} for row in range(6)]
    (folder / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def make_files(side: Side) -> None:
    """Write what a release leaves, and what is expected of it, into the folder of a side."""
    folder = side.folder
    write_texts(folder)
    run = {**RUN, "train_file": folder / "corpus.jsonl", "cache_dir": folder / "tokens", "output_dir": folder}
    side.command("pretrain", **run, experiment_name="whole")
    side.kill((folder / "run" / "checkpoint-8").is_dir, "pretrain", **run, experiment_name="run")
    whole = folder / "whole"
    networks = folder / "networks"
    for name in ("discriminator", "generator"):
        shutil.copytree(whole / name, networks / name, ignore=shutil.ignore_patterns("README.md"))
    options = {**EVALUATION, "train_file": folder / "train.csv", "validation_file": folder / "dev.csv",
               "pretrain_path": networks / "discriminator", "output_dir": folder}  # fmt: skip
    side.command("classify", **options, experiment_name="evaluation-whole")
    results = folder / "evaluation" / "results.jsonl"
    side.kill(lambda: results.is_file() and results.read_text().count("\n") >= 2, "classify", **options,
              experiment_name="evaluation")  # fmt: skip
    if results.read_text().count("\n") != 2:
        raise SystemExit("the evaluation was killed too late; start again")
    side.command("predict", folder / "evaluation", folder / "texts.jsonl", output_file=folder / "answers.jsonl")
    origin = content_of(whole / "checkpoint-12" / "origin.json")
    predictions = sorted((folder / "evaluation-whole" / "predictions").glob("*.npz"))
    expected = {
        "text": {name: value for name, value in origin.items() if "text" in name or "documents" in name},
        "log": content_of(whole / "trainer_state.json")["log_history"],
        "answers": content_of(folder / "answers.jsonl"),
        "results": [
            {name: result[name] for name in ("seed", "metrics")}
            for result in content_of(folder / "evaluation-whole" / "results.jsonl")
        ],
    }
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")
    arrays = {path.stem.rpartition("-")[2]: content_of(path)["dev"] for path in predictions}
    for name in ("discriminator", "generator"):
        hidden_states, logits = side.call(logits_of, networks / name)
        arrays |= {f"{name} hidden states": hidden_states, f"{name} logits": logits}
    np.savez_compressed(folder / "expected.npz", **arrays)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit")
    parser.add_argument("folder", type=Path, help="folder that is replaced")
    arguments = parser.parse_args()
    target = arguments.folder.resolve()
    work = Path(tempfile.mkdtemp())
    made = work / "made"
    made.mkdir()
    with Side("made", checkout_of(arguments.commit, work / arguments.commit), made) as side:
        make_files(side)
    shutil.rmtree(target, ignore_errors=True)
    left_out = ("whole", "evaluation-whole", "answers.jsonl", "log.txt", "result.pickle", "*.lock", ".locks")
    shutil.copytree(made, target, ignore=shutil.ignore_patterns(*left_out))
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
