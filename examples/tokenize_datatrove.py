"""Tokenize text on several hosts with datatrove, as folders of tokens that `--token_cache` takes.

    pip install 'electra[scale]'
    python examples/tokenize_datatrove.py 'corpus/*.jsonl' --tokenizer_path tok --output_dir tokens --tasks 8
    python examples/tokenize_datatrove.py ... --tasks 4000 --partition cpu       the same on the hosts of SLURM
    electra pretrain --token_cache tokens                                        when all tasks are finished

A task tokenizes one of `--tasks` equal parts of the bytes on one core; the tokens are those of `electra cache`. The
same command again starts the tasks that are not finished: give it the same text and number of tasks. To read from
elsewhere, or to filter and deduplicate first, put datatrove's own steps in the place of `read`.
"""

import argparse
import os
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from datatrove.data import Document
from datatrove.executor import LocalPipelineExecutor, SlurmPipelineExecutor
from datatrove.pipeline.tokens import DocumentTokenizer

from electra import load_tokenizer
from electra.data.corpus import Corpus
from electra.data.options import CorpusArguments
from electra.tokenizers.load import plain_backend

BATCH = 1000
"""Documents that a task tokenizes at once; their tokens are in memory."""


def read(_: Any, rank: int, world_size: int, options: CorpusArguments) -> Iterator[Document]:
    """Yield the documents of one part of the text, in order, as a step of datatrove that reads.

    Args:
        rank: number of the part, which is that of the task.
        world_size: number of parts.
    """
    for documents in Corpus(options).by_source(rank, world_size):
        for number, text in enumerate(documents):
            yield Document(text, f"{rank}/{number}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Tokenize text on several hosts with datatrove.")
    parser.add_argument("files", nargs="+", help="text files, folders or globs, as --train_file takes them")
    parser.add_argument("--tokenizer_path", required=True)
    parser.add_argument("--output_dir", type=Path, required=True, help="folder that all hosts see")
    parser.add_argument("--document_separator", default="blank_line", choices=["blank_line", "line", "file"])
    parser.add_argument("--text_column", default="text")
    parser.add_argument("--tasks", type=int, default=8, help="parts of the text")
    parser.add_argument("--workers", type=int, default=-1, help="tasks at once; by default all")
    parser.add_argument("--partition", help="partition of SLURM; without it, this host computes")
    parser.add_argument("--time", default="24:00:00", help="of a task, for SLURM")
    arguments = parser.parse_args()
    if arguments.partition and shutil.which("sbatch") is None:
        parser.error("--partition needs SLURM, but there is no sbatch; leave it out to compute on this host")

    tokenizer = load_tokenizer(arguments.tokenizer_path)
    tokenizer.save_pretrained(arguments.output_dir / "tokenizer")  # for training
    plain = arguments.output_dir / "plain_tokenizer.json"  # adds no special tokens, and finds none in the text
    plain_backend(tokenizer).save(str(plain))
    options = CorpusArguments(
        train_file=[str(Path(file).absolute()) for file in arguments.files],
        document_separator=arguments.document_separator,
        text_column=arguments.text_column,
    )
    steps = [
        partial(read, options=options),
        DocumentTokenizer(str(arguments.output_dir), str(plain), batch_size=BATCH, shuffle_documents=False),
    ]
    os.environ["RAYON_NUM_THREADS"] = "1"  # of a task: tasks are as many as cores
    common: dict[str, Any] = {"tasks": arguments.tasks, "workers": arguments.workers}
    common["logging_dir"] = str(arguments.output_dir / "logs")
    if arguments.partition:
        SlurmPipelineExecutor(steps, partition=arguments.partition, time=arguments.time, **common).run()
    else:
        LocalPipelineExecutor(steps, **common).run()


if __name__ == "__main__":
    main()
