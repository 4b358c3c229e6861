"""A folder with one good input of each kind, and the bad ones that the table names."""

import gzip
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from transformers import PreTrainedTokenizerBase

from electra.config import TokenizerArguments
from electra.tokenizer_training import train_tokenizer
from run_pretraining import main as pretrain
from tests.pretraining.runs import flags, write_corpus
from tests.tasks.glue.files import write_encoder, write_glue

FAST = {"eval_strategy": "no", "validation_fraction": 0, "hidden_size": 16, "num_hidden_layers": 1, "max_steps": 4}
VOCAB = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"


def write_world(folder: Path, tokenizer: PreTrainedTokenizerBase) -> Path:
    """Corpora, configurations, tokenizers, a finished run, an encoder and task files in `folder`."""
    _write_corpora(folder)
    _write_configurations(folder)
    _write_tokenizers(folder, tokenizer)
    write_encoder(folder / "encoder", tokenizer)
    write_glue(folder / "glue", "CoLA", "RTE", "STS-B")
    (folder / "no_tasks" / "unrelated").mkdir(parents=True)
    finished = {**FAST, "save_steps": 2, "tokenizer_path": folder / "tok", "experiment_name": "done"}
    pretrain(flags(folder, **finished))
    return folder


def _write_corpora(folder: Path) -> None:
    write_corpus(folder / "corpus.txt")
    write_corpus(folder / "other.txt", seed=1)
    text = (folder / "corpus.txt").read_text()
    files: dict[str, bytes | str] = {
        "zero.txt": b"",
        "blank.txt": "\n\n \t\n",
        "short.txt": "bad bad\n\nbad bad bad",
        "one.txt": text.replace("\n\n", "\n"),
        "binary.txt": bytes(range(256)) * 10,
        "latin.txt": "Größe".encode("latin-1"),
        "utf16.txt": text.encode("utf-16"),
        "body.jsonl": '{"body": "x"}\n',
        "cut.jsonl": '{"text": "a"}\n{"text": "b"\n',
        "list.jsonl": '[{"text": "a"}]\n',
        "number.jsonl": '{"text": 3}\n',
        "surrogate.jsonl": '{"text": "\\ud83d"}\n',
        "body.csv": "id,body\n1,x\n",
        "ragged.csv": "id,text\n1,a,b\n",
        "open.csv": 'id,text\n1,"never closed\n',
        "paper.pdf": "%PDF-1.7",
        "fake.txt.gz": text,
        "cut.txt.gz": gzip.compress(os.urandom(100_000).hex().encode())[:50_000],
        "fake.zip": text,
        "fake.parquet": text,
        "chinese.txt": "\n\n".join("漢字仮名交文" * 5 for _ in range(9)),
    }
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    pq.write_table(pa.table({"body": ["a"], "n": [1]}), folder / "body.parquet")
    (folder / "no_files").mkdir()
    (folder / "saved").mkdir()
    (folder / "saved" / "dataset_info.json").write_text("{}")
    (folder / "saved" / "state.json").write_text("{")


def _write_configurations(folder: Path) -> None:
    (folder / "configs").mkdir()
    files: dict[str, bytes | str] = {
        "tabs.yaml": "seed:\t1\n\tmax_steps: 2\n",
        "list.yaml": "- seed\n- 1\n",
        "text.yaml": "just words\n",
        "twice.yaml": "seed: 1\n---\nseed: 2\n",
        "typo.yaml": "max_step: 2\n",
        "several.yaml": "max_steps: [1, 2]\n",
        "latin.yaml": "experiment_name: Größe\n".encode("latin-1"),
        "nan.yaml": "learning_rate: .nan\n",
        "control.yaml": b"experiment_name: a\x00b\n",
        "python.yaml": "experiment_name: !!python/object/apply:os.system ['touch ran']\n",
        "no_corpus.yaml": "seed: 1\n",
        "tasks.yaml": "tasks: 3\n",
        "overrides.yaml": "task_overrides: [1]\n",
    }  # fmt: skip
    for name, content in files.items():
        (folder / "configs" / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    (folder / "configs" / "folder.yaml").mkdir()
    (folder / "output" / "old").mkdir(parents=True)
    (folder / "output" / "old" / "results.jsonl").write_text("[1]\n")


def _write_tokenizers(folder: Path, tokenizer: PreTrainedTokenizerBase) -> None:
    tokenizer.save_pretrained(folder / "tok")
    train_tokenizer(["some other words"] * 4, TokenizerArguments(vocab_size=40)).save_pretrained(folder / "other_tok")
    state = json.loads((folder / "tok" / "tokenizer.json").read_text())
    config = (folder / "tok" / "tokenizer_config.json").read_text()
    whole = (folder / "tok" / "tokenizer.json").read_bytes()
    folders: dict[str, dict[str, bytes | str]] = {
        "no_tok": {"readme.md": "nothing"},
        "only_config": {"tokenizer_config.json": config},
        "cut_tok": {"tokenizer.json": whole[: len(whole) // 2], "tokenizer_config.json": config},
        "garbage_tok": {"tokenizer.json": os.urandom(300), "tokenizer_config.json": config},
        "null_tok": {"tokenizer.json": "null", "tokenizer_config.json": config},
        "list_tok": {"tokenizer.json": "[]", "tokenizer_config.json": config},
        "bad_config_tok": {"tokenizer.json": whole, "tokenizer_config.json": "{"},
        "list_config_tok": {"tokenizer.json": whole, "tokenizer_config.json": "[1]"},
        "maskless": {"vocab.txt": VOCAB.replace("[MASK]\n", "") + "a\n"},
        "specials": {"vocab.txt": VOCAB},
        "latin_vocab": {"vocab.txt": (VOCAB + "ü\n").encode("latin-1")},
        "remote_tok": {
            "tokenizer_config.json": json.dumps({"auto_map": {"AutoTokenizer": ["code.Mine", None]}}),
            "tokenizer.json": json.dumps({**state, "model": {"type": "Mine"}}),
            "code.py": "open('ran', 'w')\nclass Mine: pass\n",
        },
    }
    for name, files in folders.items():
        (folder / name).mkdir()
        for file, content in files.items():
            (folder / name / file).write_bytes(content if isinstance(content, bytes) else content.encode())
