"""The numbers of some thirty tiny runs with two commits: for changes that should not affect any of them.

    python -m benchmarks.compare_commits main~1 . --work /tmp/compare

The runs cover objectives, backbones, ways to share weights, segment policies, resuming, and fine-tuning on every kind
of task. Logged losses, held-out metrics, plans and results.jsonl are compared. Exit code 1: a run failed, or a number
differs. Both commits take five minutes on an idle core; --runs chooses some of the runs.
"""

import argparse
import json
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.sides import Side, SideError, words_of

TOLERANCE = 1e-6
"""Absolute and relative difference of equal numbers, at most."""
OF_CLOCK = re.compile(r"runtime|per_second|seconds|^train_loss$")
"""Names of numbers that differ from run to run; `train_loss` is the mean since the last start."""
PRETRAINING = {
    "train_file": "corpus.txt", "tokenizer_path": "tokenizer", "cache_dir": "cache", "seed": 3, "bf16": "false",
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "embedding_size": 16,
    "max_position_embeddings": 64, "max_length": 32, "generator_size": 0.5, "validation_file": "held_out.txt",
    "per_device_train_batch_size": 4, "max_steps": 12, "warmup_steps": 3, "eval_steps": 6, "save_steps": 6,
    "logging_steps": 3,
}  # fmt: skip
"""Options of every run of pre-training."""
FINE_TUNING = {"pretrain_path": "output/electra", "num_seeds": 2, "num_train_epochs": 2}
"""Options of every evaluation."""
NO_GENERATOR: dict[str, Any] = {"generator_size": None}
"""Options of a run without a generator network."""
RUNS: dict[str, dict[str, Any]] = {
    "electra": {},
    "electra_15": {"objective": "electra_15"},
    "mlm": {"objective": "mlm", **NO_GENERATOR},
    "replace_mlm": {"objective": "replace_mlm"},
    "all_tokens_mlm": {"objective": "all_tokens_mlm"},
    "two_stage": {"objective": "two_stage", "no_init_from_generator": True},
    "adversarial": {"objective": "adversarial"},
    "uniform": {"generator_type": "uniform", **NO_GENERATOR},
    "bert": {"discriminator_type": "bert", "tie": "none", "embedding_size": None},
    "albert": {"discriminator_type": "albert", "tie": "none"},
    "roberta": {"discriminator_type": "roberta", "tie": "none", "embedding_size": None},
    "deberta": {"discriminator_type": "deberta-v2", "tie": "none"},
    "modernbert": {"discriminator_type": "modernbert", "tie": "none", "embedding_size": None},
    "document": {"segment_policy": "document"},
    "google": {"segment_policy": "google"},
    "pairs": {"segment_policy": "pairs"},
    "tie_none": {"tie": "none", "gradient_accumulation_steps": 2},
    "tie_word": {"tie": "word", "weight_decay": 0.1},
    "tie_gdes": {"tie": "gdes"},
    "original": {"initialization": "original", "adam_bias_correction": "false", "product_schedule": "true"},
    "sampling": {"temperature": 2, "disallow_correct": True},
}
"""Name of a run of pre-training -> options that differ from `PRETRAINING`; None leaves one out."""
TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "glue": ("glue", {"glue_dir": "glue", "tasks": ["cola", "stsb", "rte"]}),
    "glue_google": ("glue", {"glue_dir": "glue", "tasks": ["rte"], "config": "configs/glue/google.yaml"}),
    "squad": ("squad", {"max_length": 32, "doc_stride": 8, "max_query_length": 8}),
    "tagging": ("tag", {"max_length": 24}),
    "choice": ("choose", {}),
}
"""Name of an evaluation -> verb of `electra`, and its options."""
DATA = {"squad": "squad.json", "tagging": "tags.txt", "choice": "choice.jsonl"}
"""Name of an evaluation -> its file of training and development, where it is no data of GLUE."""


def commands(chosen: Sequence[str]) -> Iterator[list[str]]:
    """Yield the words behind `electra` of each command that makes the chosen runs.

    The run `electra` is always among them, because fine-tuning starts from it.
    """
    tokenizer = {"train_file": "corpus.txt", "vocab_size": 300, "output_dir": "tokenizer"}
    yield ["tokenizer", *words_of(tokenizer)]
    for name, options in RUNS.items():
        if name in ("electra", *chosen):
            merged = {"config": "empty.yaml", **PRETRAINING, **options, "experiment_name": name}
            yield ["pretrain", *words_of(merged)]
    if "tie_word" in chosen:
        yield ["pretrain", "--resume_from_checkpoint", "output/tie_word/checkpoint-6"]
    for name, (verb, options) in TASKS.items():
        if name in chosen:
            files = {"train_file": DATA[name], "validation_file": DATA[name]} if name in DATA else {}
            yield [verb, *words_of({**FINE_TUNING, **files, **options, "experiment_name": name})]


def write_data(folder: Path) -> None:
    """Write a corpus and data of every kind of task, from random words."""
    source = random.Random(0)
    vocabulary = ["".join(source.choices("abcdefghijklmnop", k=source.randint(2, 7))) for _ in range(200)]

    def text(length: int) -> str:
        return " ".join(source.choices(vocabulary, k=length))

    documents = ["\n".join(text(source.randint(5, 25)) for _ in range(source.randint(1, 12))) for _ in range(150)]
    apart = len(documents) // 10  # a fraction may be other documents with another commit
    files: dict[str, str] = {
        "corpus.txt": "\n\n".join(documents[apart:]),
        "held_out.txt": "\n\n".join(documents[:apart]),
        "empty.yaml": "{}\n",
    }
    for split, rows in (("train", 40), ("dev", 20)):
        scored = "\t".join(["index", *"abcdef", "sentence1", "sentence2", "score"])
        lines = [
            f"{i}\t{chr(9).join('abcdef')}\t{text(5)}\t{text(5)}\t{source.uniform(0, 5):.2f}" for i in range(rows)
        ]
        files[f"glue/STS-B/{split}.tsv"] = "\n".join([scored, *lines])
        files[f"glue/CoLA/{split}.tsv"] = "\n".join(f"source\t{i % 2}\t\t{text(6)}" for i in range(rows))
        pairs = [f"{i}\t{text(6)}\t{text(5)}\t{'not_' * (i % 2)}entailment" for i in range(rows)]
        files[f"glue/RTE/{split}.tsv"] = "\n".join(["index\tsentence1\tsentence2\tlabel", *pairs])
    paragraphs = []
    for i in range(12):
        context = text(40)
        answer = {"text": " ".join(context.split()[20:22]), "answer_start": len(" ".join(context.split()[:20])) + 1}
        questions = [("answered", [answer]), ("unanswered", [])]
        asked = [
            {"id": f"{what}-{i}", "question": text(5), "answers": answers, "is_impossible": not answers}
            for what, answers in questions
        ]
        paragraphs.append({"context": context, "qas": asked})
    files["squad.json"] = json.dumps({"version": "v2.0", "data": [{"title": "", "paragraphs": paragraphs}]})
    labels = ["O", "B-PER", "I-PER", "B-LOC"]
    sentences = [
        [f"{word} {source.choice(labels)}" for word in text(source.randint(4, 40)).split()] for _ in range(30)
    ]
    files["tags.txt"] = "\n\n".join("\n".join(sentence) for sentence in sentences) + "\n"
    choices = [{"question": text(5), "choices": [text(3) for _ in range(3)], "label": i % 3} for i in range(24)]
    files["choice.jsonl"] = "\n".join(map(json.dumps, choices))
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")


def run_all(side: Side, chosen: Sequence[str]) -> bool:
    """Make the chosen runs in the folder of a side, and return True if none has failed."""
    write_data(side.folder)
    (side.folder / "configs").symlink_to(side.checkout / "configs")
    failures = 0
    for verb, *words in commands(chosen):
        if "--resume_from_checkpoint" in words:
            shutil.rmtree(side.folder / "output" / "tie_word" / "checkpoint-12")
        try:
            side.command(verb, *words)
        except SideError as error:
            print(error, flush=True)
            failures += 1
        else:
            print(f"{side.name}: ok {verb} {words[-1]}", flush=True)
    return not failures


def numbers_of(folder: Path) -> dict[str, float]:
    """Return the numbers that are compared of all runs in a folder, by run, group (such as a step) and name."""
    values_by_name: dict[str, Any] = {}
    for path in sorted(folder.glob("output/*/*.json*")):
        content = path.read_text(encoding="utf-8")
        groups: list[tuple[str, dict[str, Any]]] = []
        if path.name == "metrics.json":
            values = json.loads(content)
            groups = [("plan", values["plan"]), *values["held_out"].items()]
        elif path.name == "trainer_state.json":
            groups = [(f"step {line['step']}", line) for line in json.loads(content)["log_history"]]
        elif path.name == "results.jsonl":
            for result in map(json.loads, content.splitlines()):
                task = result["task"].replace(folder.name, "")  # some tasks are named after their folder
                groups.append((f"{task} seed {result['seed']}", result["metrics"]))
        for group, values in groups:
            values_by_name |= {f"{path.parent.name} {group} {name}": value for name, value in values.items()}
    numbers = {name: value for name, value in values_by_name.items() if isinstance(value, int | float)}
    return {name: value for name, value in numbers.items() if not OF_CLOCK.search(name)}


def checkout_of(name: str, folder: Path) -> Path:
    """Return a folder itself, or check a commit of this repository out into `folder`, which is returned."""
    if Path(name).is_dir():
        return Path(name).resolve()
    folder.mkdir(parents=True)
    archive = folder / "commit.tar"
    command = ["git", "-C", str(Path(__file__).parent.parent), "archive", name, "--output", str(archive)]
    subprocess.run(command, check=True)
    shutil.unpack_archive(archive, folder, filter="data")
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="commit, or folder of a checkout")
    parser.add_argument("after", help="another commit or folder")
    parser.add_argument(
        "--work", type=Path, required=True, help="folder for the runs; before/ and after/ are replaced"
    )
    names = [*RUNS, *TASKS]
    parser.add_argument("--runs", nargs="+", choices=names, default=names, metavar="RUN", help=f"of {' '.join(names)}")
    arguments = parser.parse_args()
    numbers = []
    is_same = True
    for name in ("before", "after"):
        folder = arguments.work.resolve() / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with Side(name, checkout_of(getattr(arguments, name), folder / "checkout"), folder) as side:
            is_same &= run_all(side, arguments.runs)
        numbers.append(numbers_of(folder))
    table = pd.DataFrame(dict(zip(("before", "after"), numbers, strict=True)), dtype=float)
    is_close = np.isclose(table.before, table.after, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
    differing = table[~is_close]
    if len(differing):
        print(differing.to_string())
    print(f"{is_close.sum():,} of {len(table):,} numbers agree to {TOLERANCE:g}")
    sys.exit(not is_same or len(differing) > 0)


if __name__ == "__main__":
    main()
