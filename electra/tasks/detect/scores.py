"""The texts of a file, with labels if it has them, and D: the discriminator's probability that a token was replaced.

The column `label` says whether a text is wrong: 1, or right: 0. The column `spans` says which passages are wrong: a
list of [start, end], counted in characters; an empty list is a right text. Long texts are read in windows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from electra.base.typed import check_type
from electra.core.errors import UserError, abridged
from electra.core.networks import check_finite, encode, replaced_logits
from electra.data.rows import parse_value, read_rows
from electra.finetuning.data import Array, PaddingCollator, cut_windows
from electra.finetuning.row_checks import is_missing, truth_of
from electra.runtime.device import computing
from electra.runtime.threads import default_threads
from electra.tokenizers.unknown import UnknownTokens

TEXTS_PER_BLOCK = 256
"""Texts whose windows are sorted by length together."""


class LabelledText(NamedTuple):
    """A text with its labels.

    Args:
        place: source and line, FILE:LINE, for messages.
        is_wrong: whether the text is wrong; None if it is unknown.
        spans: first character of each wrong passage, and the one after its last; None if they are unknown.
    """

    place: str
    text: str
    is_wrong: bool | None
    spans: list[list[int]] | None


def read_texts(
    path: str,
    text_column: str,
    label_column: str = "label",
    delimiter: str | None = None,
    quoting: str | None = None,
) -> Iterator[LabelledText]:
    """Yield the texts of a file.

    Args:
        text_column: the column of the text in tables; a plain text has the column `text` only.
        label_column: the column of 0 or 1, which is read where a row has no `spans`; "" for no labels.
        delimiter, quoting: see `read_rows`.
    Raises:
        UserError: a text is no string, a label is not 0 or 1, or spans are not [start, end] within the text.
    """
    for place, row in read_rows(path, delimiter, quoting, reads_text=True):
        text = row["text"] if [*row] == ["text"] else row.get(text_column)
        if not isinstance(text, str):
            raise UserError(f"{place} has no text in its column {text_column} of {', '.join(row)}; see --text_column")
        written_spans = row.get("spans")
        spans = None if is_missing(written_spans) else parse_spans(written_spans, text, place)
        label = bool(spans) if spans is not None else row.get(label_column) if label_column else None
        is_wrong = truth_of(label)
        if is_wrong is None and not is_missing(label):
            raise UserError(f"{place}: the label must be 0 or 1, not {abridged(label)}; see --label_column")
        yield LabelledText(place, text, is_wrong, spans)


def parse_spans(cell: object, text: str, place: str) -> list[list[int]]:
    """Return spans [start, end] of a text in characters, from a list or from a cell that holds one as JSON.

    Raises:
        UserError: the cell holds no such list, or a span is not within the text.
    """
    try:
        spans: list[list[int]] = check_type(parse_value(cell), list[list[int]])
    except ValueError:
        spans = [[]]
    if not all(len(span) == 2 and 0 <= span[0] <= span[1] <= len(text) for span in spans):
        raise UserError(f"{place}: spans must be a list of [start, end] within the text, not {abridged(cell)}")
    return spans


class ScoredTokens(NamedTuple):
    """The N tokens of a text, without special tokens, each with D.

    Args:
        starts, ends: first character of each token in the text, and the one after its last, int64 (N,); pieces of one
            character share it.
        probabilities: D, float32 (N,).
    """

    starts: Array
    ends: Array
    probabilities: Array

    @property
    def mean(self) -> float:
        """Return the mean of D over the tokens; 0 for a text without tokens."""
        return float(self.probabilities.mean()) if len(self.probabilities) else 0.0


@dataclass
class Detector:
    """A discriminator with the settings by which it reads texts.

    Args:
        network: discriminator in evaluation mode, on its device.
        max_length: tokens of a window, with special tokens.
        batch_size: windows of a forward pass.
        unknown: counter of the unknown tokens of all texts so far.
    """

    network: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    max_length: int
    batch_size: int = 32
    unknown: UnknownTokens = field(default_factory=UnknownTokens)

    def score(self, texts: Sequence[str]) -> list[ScoredTokens]:
        """Return the scored tokens of each text. Windows overlap by half; D of a token is the mean of its windows."""
        starts = range(0, len(texts), TEXTS_PER_BLOCK)
        return [scored for start in starts for scored in self._score_block(texts[start : start + TEXTS_PER_BLOCK])]

    def _score_block(self, texts: Sequence[str]) -> list[ScoredTokens]:
        """Return the scored tokens of texts whose windows share batches."""
        encoded = self.tokenizer(
            list(texts),
            add_special_tokens=False,
            return_offsets_mapping=True,
            verbose=False,
        )
        self.unknown.add(encoded["input_ids"], self.tokenizer)
        size = self.max_length - 2
        windows = []
        count = 0  # tokens of all texts so far
        edges = []  # this count behind each text
        for ids in encoded["input_ids"]:
            for start, end in cut_windows(len(ids), size, size // 2, is_last_full=True).tolist():
                windows.append((count + start, ids[start:end]))
            count += len(ids)
            edges.append(count)
        windows.sort(key=lambda window: len(window[1]))  # similar lengths share a batch
        sums = np.zeros(count, np.float32)
        counts = np.zeros(count, np.float32)
        for first in range(0, len(windows), self.batch_size):
            batch = windows[first : first + self.batch_size]
            with computing(self.network.device, default_threads()):
                window_probabilities = self.probabilities([ids for _, ids in batch])
            for row, (start, ids) in zip(window_probabilities, batch, strict=True):
                tokens = slice(start, start + len(ids))
                sums[tokens] += row[: len(ids)]
                counts[tokens] += 1
        scored_texts = []
        by_text = np.split(sums / counts, edges[:-1])
        for text, probabilities, offsets in zip(texts, by_text, encoded["offset_mapping"], strict=True):
            starts, ends = np.array(offsets, np.int64).reshape(-1, 2).T
            for number, (start, end) in enumerate(offsets):  # byte-level BPE and Unigram count the space before a word
                starts[number] = end - len(text[start:end].lstrip())
            scored_texts.append(ScoredTokens(starts, ends, probabilities))
        return scored_texts

    @torch.inference_mode()
    def probabilities(self, rows: Sequence[list[int]]) -> Array:
        """Return D of the tokens in B rows of ids without special tokens; raise a UserError if a D is nan.

        Returns:
            float32 (B, 1 + longest row), in which the values behind the tokens of a row do not count.
        """
        before = self.tokenizer.cls_token_id
        behind = self.tokenizer.sep_token_id
        framed = [{"input_ids": [before, *row, behind]} for row in rows]
        batch = PaddingCollator(self.tokenizer.pad_token_id)(framed)
        device = self.network.device
        hidden = encode(self.network, batch["input_ids"].to(device), batch["attention_mask"].to(device), None)
        logits = replaced_logits(self.network, hidden).float()
        check_finite(logits)
        return logits.sigmoid().cpu().numpy()[:, 1:]
