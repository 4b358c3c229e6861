"""Features of a frozen encoder, and a BiLSTM that labels words by them: BERT's paper, section 5.3 and table 7.

The states of one or more layers at the first token of each word are the input of a two-layer BiLSTM of 768 units in
each direction, and a linear layer classifies its output. Nothing below the BiLSTM changes, so the features of all rows
are computed once, by `add_features`, and stay in memory for all runs.
"""

import copy
import functools
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate import PartialState
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from transformers import MODEL_MAPPING, PreTrainedConfig, PreTrainedModel

from electra.base.console import format_bytes
from electra.core.errors import UserError
from electra.core.networks import gather_hidden, pooling_option
from electra.data.rows import Columns
from electra.finetuning.config import FeatureName, HyperParameters
from electra.finetuning.data import Array, ColumnRows, PaddingCollator
from electra.finetuning.heads import BiLstm, TaskModel, full_precision, in_precision
from electra.finetuning.registry import FEATURE_TAGGING
from electra.finetuning.task import TaskData
from electra.runtime.device import tune_for_cpu

logger = logging.getLogger(__name__)


class Reading(NamedTuple):
    """A choice of hidden states of an encoder, and the way in which several become one vector.

    Args:
        states: slice of the states of the embeddings and of all layers, in this order.
        is_mixed: whether the states are summed up with learned weights; otherwise they are concatenated.
    """

    states: slice
    is_mixed: bool = False


READINGS: dict[FeatureName, Reading] = {
    "last": Reading(slice(-1, None)),
    "second_to_last": Reading(slice(-2, -1)),
    "concat_4": Reading(slice(-4, None)),
    "mix_4": Reading(slice(-4, None), is_mixed=True),
    "mix_all": Reading(slice(1, None), is_mixed=True),
    "embeddings": Reading(slice(0, 1)),
}
"""Choices of states by name: the rows of table 7 of BERT's paper."""
FEATURES_KEY = "tagging_features"
"""Key in the configuration of a saved tagger: a name in `READINGS`."""


def check_features(features: object, config: PreTrainedConfig) -> None:
    """Raise a UserError if `features` is no name in `READINGS`, or the encoder has fewer layers than are read.

    Args:
        config: the encoder's configuration.
    """
    if features not in READINGS:
        raise UserError(f"the features {features!r:.40} are unknown; choose one of {', '.join(READINGS)}")
    layers = config.num_hidden_layers
    depth = -(READINGS[features].states.start or 0)
    if layers < depth:
        raise UserError(f"--features {features} reads {depth} layers, but the encoder has {layers}; choose others")


class FeatureHead(nn.Module):
    """A head that labels words by their features: weighted sum or concatenation of S states, a BiLSTM, a linear layer.

    Args:
        features: a name in `READINGS`.
        config: the encoder's configuration.
        num_labels: number of classes, C.
        dropout: probability of dropout before the linear layer, and between the layers of the BiLSTM.
    """

    def __init__(self, features: FeatureName, config: PreTrainedConfig, num_labels: int, dropout: float) -> None:
        super().__init__()
        reading = READINGS[features]
        count = len(range(config.num_hidden_layers + 1)[reading.states])
        self.weights = nn.Parameter(torch.zeros(count)) if reading.is_mixed else None  # logits of a softmax
        self.lstm = BiLstm(config.hidden_size * (1 if reading.is_mixed else count), dropout)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(self.lstm.width, num_labels)

    def forward(self, features: Tensor, num_words: Tensor) -> Tensor:
        """Return logits (B, W, C) of features, float32 (B, W, S, D); row b has `num_words[b]` words, int64 (B,)."""
        if self.weights is None:
            values = features.flatten(2)
        else:
            values = torch.einsum("s,bwsd->bwd", self.weights.softmax(0), features)
        return self.classifier(self.dropout(self.lstm(values, num_words).outputs))


class FrozenEncoder(TaskModel):
    """An encoder that is not trained and has no dropout, with a head that reads its features or does nothing."""

    def __init__(self, encoder: PreTrainedModel, features: FeatureName, head: nn.Module) -> None:
        super().__init__(encoder, head)
        encoder.requires_grad_(False)
        self.features = features

    def train(self, mode: bool = True) -> "FrozenEncoder":
        """Set the head to training or evaluation, and the encoder to evaluation."""
        super().train(mode)
        self.encoder.eval()
        return self

    @torch.no_grad()
    def read(self, input_ids: Tensor, attention_mask: Tensor, positions: Tensor) -> Tensor:
        """Return the features, float32 (B, W, S, D), of words whose first tokens are at `positions`, int64 (B, W)."""
        output = self.encoder_output(input_ids, attention_mask, output_hidden_states=True)
        states = [*output.hidden_states[:-1], output[0]]  # of the last, what other heads read
        read_states = states[READINGS[self.features].states]
        return torch.stack([gather_hidden(state, positions).float() for state in read_states], dim=2)


class FeatureTagger(FrozenEncoder):
    """A frozen encoder, and a BiLSTM that labels words by its features."""

    def __init__(self, encoder: PreTrainedModel, features: FeatureName, num_labels: int, dropout: float) -> None:
        super().__init__(encoder, features, FeatureHead(features, encoder.config, num_labels, dropout))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        positions: Tensor,
        features: Tensor | None = None,
    ) -> Tensor:
        """Return logits of W words, float32 (B, W, C).

        Args:
            positions: positions of the words' first tokens, int64 (B, W); 0 behind the last word of a row.
            features: result of `read`; None to compute it.
        """
        if features is None:
            features = self.read(input_ids, attention_mask, positions)
        num_words = 1 + (positions[:, 1:] > 0).sum(1)
        with full_precision(features):
            return self.head(features, num_words)

    def exported(self) -> PreTrainedModel:
        config = copy.deepcopy(self.encoder.config)
        setattr(config, FEATURES_KEY, self.features)
        head: Any = self.head
        config.num_labels = head.classifier.out_features
        model = tagger_class(config)(config)
        setattr(model, model.base_model_prefix, copy.deepcopy(self.encoder))
        saved: Any = model
        saved.tagger.load_state_dict(self.head.state_dict())
        return model.float().cpu()

    def take_from(self, saved: PreTrainedModel) -> None:
        tagger: Any = saved
        self.head.load_state_dict(tagger.tagger.state_dict())


def tagger_class(config: PreTrainedConfig) -> type[PreTrainedModel]:
    """Return the class of saved taggers of an architecture: encoder and `FeatureHead`, as its `tagger`.

    `AutoModel` opens the encoder of such a folder.
    """
    check_features(getattr(config, FEATURES_KEY, None), config)
    config_class: Any = type(config)
    return _tagger_class(config_class)


@functools.cache
def _tagger_class(config_class: Any) -> Any:
    """Return the class of saved taggers for a class of configurations; a class is made once."""
    encoder_class = MODEL_MAPPING[config_class]
    family = next(base for base in encoder_class.__mro__ if base.__name__.endswith("PreTrainedModel"))

    def __init__(self: Any, config: PreTrainedConfig) -> None:
        family.__init__(self, config)
        setattr(self, self.base_model_prefix, encoder_class(config, **pooling_option(encoder_class, False)))
        self.tagger = FeatureHead(getattr(config, FEATURES_KEY), config, config.num_labels, 0.0)
        self.post_init()

    name = f"{encoder_class.__name__.removesuffix('Model')}For{FEATURE_TAGGING}"
    return type(name, (family,), {"__init__": __init__, "__module__": __name__})


# ---- features of all rows, computed once


class FeatureCollator(PaddingCollator):
    """A `PaddingCollator` of rows that may have features, which it pads with zeros: float32 (B, W, S, D)."""

    def __call__(self, rows: Sequence[Columns]) -> dict[str, Tensor]:
        inputs = [{name: value for name, value in row.items() if name != "features"} for row in rows]
        batch = super().__call__(inputs)
        if "features" in rows[0]:
            features = [torch.from_numpy(np.array(row["features"])) for row in rows]
            batch["features"] = pad_sequence(features, batch_first=True)
        return batch


def add_features(features: FeatureName, encoder: PreTrainedModel, tuning: HyperParameters, data: TaskData) -> TaskData:
    """Return the data with the column `features` in the rows of all splits: float32 (W, S, D) of a row with W words.

    Args:
        features: a name in `READINGS`.
    Raises:
        UserError: the encoder has too few layers.
    """
    check_features(features, encoder.config)
    device = torch.device("cpu") if tuning.use_cpu else PartialState().device
    model = FrozenEncoder(copy.deepcopy(encoder), features, nn.Identity()).to(device).eval()
    tune_for_cpu(model)
    splits = {}
    for name, split in data.splits.items():
        arrays = _features(model, split.rows, tuning)
        logger.info("features       %s: %s", name, format_bytes(sum(array.nbytes for array in arrays)))
        splits[name] = split._replace(rows=replace(split.rows, columns={**split.rows.columns, "features": arrays}))
    return data._replace(splits=splits)


def _features(model: FrozenEncoder, rows: ColumnRows, tuning: HyperParameters) -> list[Array]:
    """Compute the features of each row, float32 (W, S, D), in batches of similar length."""
    collator = PaddingCollator(model.encoder.config.pad_token_id or 0)
    device = model.encoder.device
    arrays: dict[int, Array] = {}
    for row_numbers in rows.batches(tuning.per_device_eval_batch_size):
        batch = collator([{name: rows[row][name] for name in ("input_ids", "positions")} for row in row_numbers])
        with in_precision(device, tuning.precision):
            states = model.read(**{name: values.to(device) for name, values in batch.items()})
        for row, values in zip(row_numbers, states.cpu().numpy(), strict=True):
            arrays[row] = values[: len(rows[row]["positions"])].copy()  # without the padding
    return [arrays[row] for row in range(len(rows))]
