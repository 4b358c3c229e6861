"""A frozen encoder and windows of tokens -> one vector for each word, computed once for all seeds.

Which layers it is made of is the question of the BERT paper's table 7. An encoder that is not trained is run once, not
once for each step: what is trained are heads on stored vectors, float16, 2 bytes x words x width.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from electra.errors import UserError
from electra.tagging.heads import at_positions, takes_hidden_states
from electra.tagging.windows import IGNORED, WindowCollator, Windows, padded

FEATURE_LAYERS = ("last", "second_to_last", "sum_last_4", "concat_last_4", "sum_all", "weighted_sum")


def combine_layers(layers: Sequence[Tensor], which: str) -> Tensor:
    """Hidden states of one or more layers as one vector, or as layers that are weighted later.

    Args:
        layers: those of the embeddings first, each (..., D).
        which: of `FEATURE_LAYERS`; sum_all: of all layers but the embeddings.
    Returns:
        (..., D), concat_last_4 (..., 4 D), weighted_sum (..., K, D) with K layers, the embeddings among them.
    Raises:
        UserError: there are too few layers.
    """
    needed = {"second_to_last": 2, "sum_last_4": 4, "concat_last_4": 4}.get(which, 1)
    if len(layers) - 1 < needed:
        raise UserError(
            f"--feature_layers {which} needs {needed} layers, the encoder has {len(layers) - 1}; choose another one"
        )
    if which == "second_to_last":
        return layers[-2]
    if which == "sum_last_4":
        return torch.stack(tuple(layers[-4:])).sum(0)
    if which == "concat_last_4":
        return torch.cat(tuple(layers[-4:]), dim=-1)
    if which == "sum_all":
        return torch.stack(tuple(layers[1:])).sum(0)
    return torch.stack(tuple(layers), dim=-2) if which == "weighted_sum" else layers[-1]


@dataclass(frozen=True)
class Features:
    """Rows of a split, see `Rows`: a sentence each, W words in all of them.

    Args:
        values: of all words, sentence by sentence, float16 (W, D) or (W, K, D).
        ends: where the words of each sentence end, int64 (N,).
        labels: of each word, int64 (W,), or None.
    """

    values: NDArray[np.float16]
    ends: NDArray[np.int64]
    labels: NDArray[np.int64] | None

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Words of each sentence, int64 (N,)."""
        return np.diff(self.ends, prepend=0)

    def __getitem__(self, row: int) -> dict[str, Any]:
        words = slice(self.ends[row - 1] if row > 0 else 0, self.ends[row])
        item = {"features": self.values[words]}
        return item if self.labels is None else {**item, "labels": self.labels[words]}

    def without_labels(self) -> "Features":
        return replace(self, labels=None)


def compute_features(
    encoder: PreTrainedModel, windows: Windows, which: str, collator: WindowCollator, batch_size: int
) -> Features:
    """Run the encoder over all windows, without dropout and without gradients.

    Raises:
        UserError: as of `combine_layers`; or the encoder does not say what its layers put out.
    """
    if not takes_hidden_states(encoder):
        raise UserError(f"{type(encoder).__name__} does not give its layers; leave --frozen_features out")
    rows, device = windows.without_labels(), encoder.device
    order = np.argsort(windows.lengths, kind="stable")
    first_words = np.concatenate([[0], windows.word_ends])
    values: NDArray[np.float16] | None = None
    was_training = encoder.training
    encoder.eval()
    with torch.inference_mode():
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size].tolist()
            batch = {name: value.to(device) for name, value in collator([rows[row] for row in chosen]).items()}
            positions = batch.pop("positions")
            # Cast: what an encoder returns depends on its class.
            states = cast(Any, encoder(**batch, output_hidden_states=True)).hidden_states
            vectors = combine_layers([at_positions(layer.float(), positions) for layer in states], which)
            for row, found in zip(chosen, vectors.cpu().numpy(), strict=True):
                if values is None:
                    values = np.empty((len(windows.words), *found.shape[1:]), dtype=np.float16)
                words = slice(first_words[row], first_words[row + 1])
                values[words] = found[: words.stop - words.start]
    encoder.train(was_training)
    if values is None:
        raise UserError("there is no sentence to compute features of")
    in_order = np.lexsort((windows.words, windows.sentences))  # windows of a long sentence share its words out
    _, counts = np.unique(windows.sentences, return_counts=True)
    labels = None if windows.labels is None else windows.labels[in_order]
    return Features(values[in_order], np.cumsum(counts), labels)


@dataclass(frozen=True)
class FeatureCollator:
    """Sentences of vectors to a batch, padded with zeros to the longest of them."""

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        """float32 `features` (B, W, D) or (B, W, K, D), int64 `lengths` (B,); `labels` (B, W) if rows have them."""
        lengths = [len(row["features"]) for row in rows]
        features = np.zeros((len(rows), max(lengths), *rows[0]["features"].shape[1:]), dtype=np.float32)
        for i, row in enumerate(rows):
            features[i, : lengths[i]] = row["features"]
        batch = {"features": torch.from_numpy(features), "lengths": torch.tensor(lengths)}
        if "labels" in rows[0]:
            batch["labels"] = padded([row["labels"] for row in rows], IGNORED)
        return batch
