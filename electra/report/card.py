"""One model card for all models: the metadata that the Hub reads, then the same sections. No torch."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from huggingface_hub import ModelCardData

from electra.io.files import write_file
from electra.report.blocks import Blocks, Code, Heading, Table, Text, to_markdown

_FOLDERS = re.compile(r"(?<![^\s'\"=(|])/(?:[^\s/'\"]+/)+(?=[^\s/'\"])")
"""The folders of an absolute path: they say nothing to a reader, and much about a machine."""


class Card(NamedTuple):
    """What a card says.

    Args:
        about: what the model does.
        auto_class: the class of transformers that opens it.
        folder: what to open.
        scores: with a metric in each row.
        training: name and value of what was trained, on what, for how long.
        command: what made the model.
        options: YAML; "" if the command has them all.
        fine_tune: the command that trains the model on; "" if it is not meant for that.
    """

    title: str
    about: str
    auto_class: str
    folder: str
    scores_title: str
    scores: Table
    training: Sequence[tuple[str, str]]
    command: str = ""
    options: str = ""
    fine_tune: str = ""

    def blocks(self) -> Blocks:
        lines = [
            f"from transformers import AutoTokenizer, {self.auto_class}\n",
            f'tokenizer = AutoTokenizer.from_pretrained("{self.folder}")',
            f'model = {self.auto_class}.from_pretrained("{self.folder}")',
        ]
        blocks: Blocks = [Heading(self.title, 1), Text(self.about), Code("\n".join(lines), "python")]
        if self.fine_tune:
            blocks += [Text("Fine-tune it:"), Code(self.fine_tune, "bash")]
        blocks += [Heading(self.scores_title), self.scores, Heading("Training"), Table(["", " "], self.training)]
        if self.command:
            blocks += [Text("Made by this command:"), Code(self.command, "bash")]
        if self.options:
            blocks += [Text("All options:"), Code(self.options, "yaml")]
        return blocks


def write_card(path: Path, data: ModelCardData, card: Card) -> None:
    """Write a model card atomically, without the folders of this machine."""
    text = _FOLDERS.sub("", to_markdown(card.blocks()))
    write_file(f"---\n{data.to_yaml()}\n---\n{text}".encode(errors="replace"), path)
