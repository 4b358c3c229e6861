"""The adapter of tagging without training: schemes, windows, the loss of a step."""

from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

from electra.finetuning.config import resolve
from electra.finetuning.evaluation import open_evaluation
from electra.finetuning.runner import open_encoder
from electra.tasks.tagging.task import Tagging, parse_arguments
from tests.tasks.tagging.files import flags


def test_options_reach_labels_and_windows(files: Path, tmp_path: Path) -> None:
    for scheme, prefixes in (("auto", "BI"), ("bioes", "BIES")):
        options = {"scheme": scheme, "max_length": 8, "experiment_name": scheme, "output_dir": tmp_path}
        args = parse_arguments(flags(files, **options))
        task = Tagging(args, open_encoder(args), open_evaluation(args, "x"))
        rows = task.load(["names"], {"names": resolve(args, "names", task.encoder)})["names"]
        assert task.tags == ["O", *(f"{prefix}-{kind}" for kind in ("LOC", "PER") for prefix in prefixes)]
        assert rows.train.lengths.max() == 8 and rows.examples == {"train": 100, "dev": 12} and not rows.test
        used = {task.tags[label] for row in rows.train for label in row["labels"]}
        assert used == {tag for tag in task.tags if scheme == "auto" or tag[0] != "I"}  # names have at most two words
    logits, labels = torch.randn(2, 3, 5), torch.tensor([[1, 2, -100], [0, -100, -100]])
    mean = cross_entropy(torch.stack([logits[0, 0], logits[0, 1], logits[1, 0]]), torch.tensor([1, 2, 0]))
    torch.testing.assert_close(task.loss(logits, labels, None), mean)
    torch.testing.assert_close(task.loss(logits, labels, 6), mean / 2)
