"""What are thresholds worth where classes are rare? F1 of 28 classes of 4 % of the texts, at one half and at them.

    python -m benchmarks.bench_thresholds --work output/thresholds

A text has 12 words of 500. Each class has two words of its own; a text of the class has one of them, and one text in
25 has another one at random. `electra classify` trains a network of width 64 from random weights.
"""

import json
import random
from pathlib import Path

from electra.io.errors import Parser, run_script
from electra.report.blocks import table_of, to_markdown
from electra.report.results import read_results
from electra.tasks.classify.report import CLASSIFY_REPORTING
from electra.tasks.classify.task import main as classify
from electra.tokenizers.options import TokenizerArguments
from electra.tokenizers.train import train_on_documents

CLASSES = 28
SHARE = 0.04
WORDS = [f"w{number}" for number in range(500)]
METRICS = ("macro_f1", "threshold_macro_f1", "micro_f1", "threshold_micro_f1", "average_precision", "ece")
ARCHITECTURE = {
    "model_type": "electra", "vocab_size": 600, "hidden_size": 64, "embedding_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 1, "intermediate_size": 128, "max_position_embeddings": 32, "hidden_dropout_prob": 0.0,
}  # fmt: skip


def write_rows(path: Path, count: int, rng: random.Random) -> None:
    """Write texts and the list of their classes."""
    rows = []
    for _ in range(count):
        words = rng.choices(WORDS, k=12)
        labels = [f"c{number}" for number in range(CLASSES) if rng.random() < SHARE]
        for label in labels:
            words.append(f"{label}{rng.choice('ab')}")
        if rng.random() < SHARE:
            words.append(f"c{rng.randrange(CLASSES)}{rng.choice('ab')}")
        rng.shuffle(words)
        rows.append(json.dumps({"text": " ".join(words), "labels": labels}))
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


def main() -> None:
    parser = Parser(prog="bench_thresholds")
    parser.add_argument("--work", type=Path, required=True, help="folder of texts, tokenizer and results")
    parser.add_argument("--texts", type=int, default=2000, help="training texts; half as many are held out and tested")
    given = parser.parse_args()
    data = given.work / "data"
    data.mkdir(parents=True, exist_ok=True)
    rng = random.Random(0)
    for split, share in (("train", 1.0), ("dev", 0.5), ("test", 0.5)):
        write_rows(data / f"{split}.jsonl", round(share * given.texts), rng)
    vocabulary = [*WORDS, *(f"c{number}{end}" for number in range(CLASSES) for end in "ab")]
    tokenizer = train_on_documents([" ".join(vocabulary)] * 4, TokenizerArguments(vocab_size=600))
    tokenizer.save_pretrained(given.work / "encoder")
    architecture = {**ARCHITECTURE, "vocab_size": len(tokenizer)}
    (given.work / "encoder" / "config.json").write_text(json.dumps(architecture), encoding="utf-8")
    files = [f"--{name}_file={data / split}.jsonl" for name, split in
             (("train", "train"), ("validation", "dev"), ("test", "test"))]  # fmt: skip
    classify(
        [f"--from_scratch={given.work / 'encoder'}", *files, f"--output_dir={given.work}", "--experiment_name=run",
         "--num_seeds=3", "--max_length=32", "--learning_rate=3e-3", "--layerwise_lr_decay=1", "--num_train_epochs=20",
         "--use_cpu"]
    )  # fmt: skip
    results = read_results(given.work / "run" / "results.jsonl")
    (run,) = CLASSIFY_REPORTING.summarize(results, "")
    (task,) = run.tasks.values()
    rows = []
    for metric in METRICS:
        row = {"metric": CLASSIFY_REPORTING.metrics[metric]}
        for split, prefix in (("development", ""), ("test", "test_")):
            spread = task.spread(prefix + metric)
            row[split] = f"{100 * (spread.median or 0):.1f} ± {100 * (spread.std or 0):.1f}"
        rows.append(row)
    print(to_markdown([table_of(rows)]))


if __name__ == "__main__":
    run_script(main)
