"""submission.zip for gluebenchmark.com, from the predictions of an evaluation."""

import io
import logging
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from electra.finetuning.evaluation import Evaluation
from electra.io.files import write_file
from electra.tasks.glue.metrics import combine
from electra.tasks.glue.tasks import DIAGNOSTICS, TASKS

logger = logging.getLogger(__name__)


def submit(evaluation: Evaluation) -> None:
    """Write submission.zip: answers of the best run of a task, or of the ensemble of all its runs."""
    answers: dict[str, np.ndarray] = {}
    is_ensemble = evaluation.args.options.predict_test == "ensemble"
    for task in evaluation.tasks:
        files = dict(TASKS[task.name].test_files)
        if task.name == "mnli":
            files |= DIAGNOSTICS.test_files
        runs = [evaluation.read_logits(task.name, seed) for seed in evaluation.best_first(task)]
        for split, title in files.items():
            logits = [run[split] for run in runs if split in run]
            usable = [values for values in logits if np.isfinite(values).all()]
            if len(usable) < len(runs):
                unusable = len(runs) - len(usable)
                logger.warning("%s: %d of %d runs have no usable predictions", title, unusable, len(runs))
            if usable:
                chosen = usable if is_ensemble else usable[:1]
                answers[title] = combine(chosen, TASKS[task.name])
    path = evaluation.folder / "submission.zip"
    logger.info("submission     %s", path)
    for note in write_submission(path, answers):
        logger.info("  %s", note)


def write_submission(path: Path, answers: Mapping[str, np.ndarray]) -> list[str]:
    """Write the zip for gluebenchmark.com, even if it is incomplete. The same answers give the same bytes.

    Args:
        answers: file title ("CoLA") -> answers of `combine`, (N,). Without WNLI all its answers become the majority
            class of its training data (0, right on 65.1 % of the test data), as is usual.
    Returns:
        What was filled in, and what the server will reject.
    """
    notes = []
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for task in (*TASKS.values(), DIAGNOSTICS):
            for split, title in task.test_files.items():
                found, rows = answers.get(title), task.rows[split]
                if found is None and title == "WNLI":
                    found = np.zeros(rows, dtype=np.int64)
                    notes.append("WNLI.tsv was not predicted; it has 0, the majority class of the training data")
                if found is None:
                    notes.append(f"{title}.tsv is missing; the server rejects the zip without it")
                    continue
                if len(found) != rows:
                    notes.append(f"{title}.tsv has {len(found)} rows, expected {rows}; the server rejects it")
                lines = ["index\tprediction"]
                for index, answer in enumerate(found):
                    written = f"{answer:.3f}" if task.is_regression else task.written_labels[int(answer)]
                    lines.append(f"{index}\t{written}")
                lines.append("")
                archive.writestr(zipfile.ZipInfo(f"{title}.tsv"), "\n".join(lines))  # always dated 1980: equal bytes
    write_file(content.getvalue(), path)
    return notes
