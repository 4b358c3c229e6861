"""submission.zip for gluebenchmark.com, from the predictions of an evaluation."""

import io
import logging
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from electra.finetuning.evaluation import Evaluation
from electra.io.files import write_file
from electra.tasks.glue.metrics import combine
from electra.tasks.glue.task import open_glue_task
from electra.tasks.glue.tasks import DIAGNOSTICS, KNOWN_TASKS

logger = logging.getLogger(__name__)


def submit(evaluation: Evaluation) -> None:
    """Write submission.zip: answers of the best run of a task, or of the ensemble of all its runs."""
    answers: dict[str, np.ndarray] = {}
    finished = {result.task for result in evaluation.results}  # also by other commands
    for name, facts in KNOWN_TASKS.items():
        if name not in finished:
            continue
        task = open_glue_task(evaluation.args, facts)
        files = dict(facts.test_files)
        if name == "mnli":
            files |= DIAGNOSTICS.test_files
        runs = [evaluation.read_logits(name, seed) for seed in evaluation.best_first(task)]
        for split, title in files.items():
            usable = [run[split] for run in runs if split in run and np.isfinite(run[split]).all()]
            if evaluation.args.options.predict_test == "best":
                usable = usable[:1]
            if usable:
                answers[title] = combine(usable, facts)
    path = evaluation.folder / "submission.zip"
    missing = write_submission(path, answers)
    logger.info("submission     %s", path)
    if missing:
        logger.warning("%s has no answers for %s: the server rejects it", path, ", ".join(missing))


def write_submission(path: Path, answers: Mapping[str, np.ndarray]) -> list[str]:
    """Write the zip for gluebenchmark.com, even if it is incomplete. The same answers give the same bytes.

    Args:
        answers: file title ("CoLA") -> answers of `combine`, (N,). Without WNLI all its answers become the majority
            class of its training data (0, right on 65.1 % of the test data), as is usual.
    Returns:
        The files that are missing.
    """
    majority = np.zeros(KNOWN_TASKS["wnli"].rows["test"], np.int64)
    found = {"WNLI": majority, **answers}
    missing = []
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for task in (*KNOWN_TASKS.values(), DIAGNOSTICS):
            for title in task.test_files.values():
                if title not in found:
                    missing.append(title)
                    continue
                column = pd.Series(found[title], name="prediction")
                if not task.is_regression:
                    column = column.map(dict(enumerate(task.written_labels)))
                text = column.to_csv(sep="\t", index_label="index", float_format="%.3f")
                archive.writestr(zipfile.ZipInfo(f"{title}.tsv"), text)  # always dated 1980: equal bytes
    write_file(content.getvalue(), path)
    return missing
