"""Models that are fine-tuned: an encoder, trained or fresh, and a head of transformers or of another code base.

The code bases that report ELECTRA's results differ in the head: one layer on [CLS] in the original, the class of the
architecture in transformers, the mean of all tokens in rc2020_electra.
"""

import copy
import hashlib
import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from accelerate import PartialState
from accelerate.utils import gather_object
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import (
    AutoModel,
    AutoModelForMultipleChoice,
    AutoModelForSequenceClassification,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.utils import CONFIG_NAME, ModelOutput

from electra.base.checkpoints import differs_from_manifest
from electra.core.backbones import BACKBONES
from electra.core.configuration import (
    CAUSAL_KEY,
    DROPOUTS,
    SIZE_NAMES,
    ElectraPretrainingConfig,
    longest_text,
    network_config,
)
from electra.core.errors import UserError
from electra.core.networks import attention_inputs, can_share_rows, causal_bias, gather_hidden
from electra.core.recipes import RECIPES
from electra.finetuning.data import IGNORED, Array, Collator, ColumnRows
from electra.model.pretrained import (
    base_model_of,
    load_tokenizer_beside_model,
    load_weights,
    locate_model,
    may_have_tokenizer,
    name_of,
    own_tokenizer,
    read_config,
    tokenizer_of,
    without_pooling,
)
from electra.runtime.device import row_multiple
from electra.tokenizers.load import load_tokenizer, tokenizer_fingerprint, vocabulary_size

UNBOUNDED = 2**20
"""Length in tokens that stands for a model without a limit."""
BILSTM_UNITS = 768
"""Units of a BiLSTM in each direction of each of two layers, for encoders of any width: section 5.3 of BERT's
paper."""
LEFT_TO_RIGHT_KEY = "is_fine_tuned_left_to_right"
"""Key in the configuration of an encoder in which, also in fine-tuning, no token sees a later one."""


PRECISIONS = {"bf16": torch.bfloat16, "fp16": torch.float16}
"""Name of a precision -> the type in which products are computed; float32 otherwise."""


def in_precision(device: torch.device, precision: str) -> torch.autocast:
    """Return a context that computes in a precision: bf16, fp16 or fp32."""
    return torch.autocast(device.type, PRECISIONS.get(precision), enabled=precision in PRECISIONS)


def full_precision(hidden: Tensor) -> torch.autocast:
    """Return a context that computes in float32 on the device of `hidden`.

    Heads compute in it: they cost little, and bfloat16 turns answers into ties.
    """
    return torch.autocast(hidden.device.type, enabled=False)


def longest_input(encoder: PreTrainedModel) -> int:
    """Return how many tokens, special ones included, an encoder of any architecture accepts, at most `UNBOUNDED`."""
    positions: int = getattr(encoder.config, "max_position_embeddings", None) or UNBOUNDED
    for path, module in encoder.named_modules():
        # RoBERTa and similar models count positions from the padding id on.
        if path.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            return positions - int(module.padding_idx) - 1
    return positions


def can_read_mean(config: PreTrainedConfig) -> bool:
    """Return True if transformers' classes for an architecture can read the mean of all tokens, as ModernBERT's."""
    return hasattr(config, "classifier_pooling")


class EncoderPlaceholder(nn.Module):
    """A stand-in for the encoder within a class of transformers, which returns its embedded inputs as last states.

    Args:
        base: the class's own encoder, whose pooler, if it has one, is part of the head.
    """

    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.pooler: Any = getattr(base, "pooler", None)
        self.pooler_activation: Any = getattr(base, "pooler_activation", None)  # ALBERT's pooler is a bare layer

    def forward(self, *args: object, inputs_embeds: Tensor, **kwargs: object) -> BaseModelOutputWithPooling:
        pooled = None
        if self.pooler_activation is not None:
            pooled = self.pooler_activation(self.pooler(inputs_embeds[:, 0]))
        elif self.pooler is not None:
            pooled = self.pooler(inputs_embeds)
        return BaseModelOutputWithPooling(last_hidden_state=inputs_embeds, pooler_output=pooled)


class TransformersHead(nn.Module):
    """The head of an architecture's class in transformers, such as `ElectraForSequenceClassification`, in float32.

    The class is used as it is; only its encoder is replaced by hidden states, which may be in another precision. So
    the saved model computes what was trained, whatever layers the class has.

    Args:
        auto_class: class of transformers that finds the class of an architecture, such as
            `AutoModelForTokenClassification`.
        config: the encoder's configuration.
        dropout: probability of all dropout layers of the head.
        num_labels: number of logits; ignored by classes with a fixed number.
        reads_mean: whether the class reads the mean of all tokens, in place of what its configuration says.
    Raises:
        UserError: transformers has no such class for this architecture, or the class cannot read the mean.
    """

    def __init__(
        self,
        auto_class: Any,
        config: PreTrainedConfig,
        dropout: float,
        num_labels: int = 2,
        reads_mean: bool = False,
    ) -> None:
        super().__init__()
        self.output_range: Any = (0.0, 1.0)  # of a regression: what outputs of 0 and 1 become in the saved model
        config = copy.deepcopy(config)
        config.num_labels = num_labels
        if reads_mean and not can_read_mean(config):
            message = f"transformers' class for {config.model_type} cannot read the mean of all tokens"
            raise UserError(f"--head hf_mean: {message}; use --head mean_pool, which --save_model does not keep")
        if reads_mean:
            config.classifier_pooling = "mean"
        try:
            with torch.random.fork_rng(devices=[]):
                model = auto_class.from_config(config, dtype=torch.float32)
        except ValueError as error:
            kind = auto_class.__name__.removeprefix("AutoModelFor")
            raise UserError(f"transformers has no {kind} for {config.model_type}; choose another --head") from error
        self.take_from(model)
        self.has_choices = auto_class is AutoModelForMultipleChoice
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = dropout

    def forward(self, hidden: Tensor, attention_mask: Tensor) -> ModelOutput:
        """Return the output of transformers' class for hidden states (B, L, D) and their mask (B, L).

        Its logits are (B, C), those of words (B, L, C), of the B choices of a question (1, B); of spans it has
        `start_logits` and `end_logits`, (B, L).
        """
        states = hidden.float()
        if self.has_choices:  # the rows are the choices of one question
            states = states.unsqueeze(0)
            attention_mask = attention_mask.unsqueeze(0)
        with full_precision(hidden):
            # The placeholder ignores the ids, but some classes read their shape, which is that of the mask.
            return self.model(input_ids=attention_mask, inputs_embeds=states, attention_mask=attention_mask)

    def take_from(self, model: PreTrainedModel) -> None:
        """Take over all layers of a saved model but its encoder: the inverse of `with_encoder`."""
        setattr(model, model.base_model_prefix, EncoderPlaceholder(model.base_model))
        self.model: PreTrainedModel = model

    def with_encoder(self, encoder: PreTrainedModel) -> PreTrainedModel:
        """Return the model as transformers has it: a copy of head and encoder, in float32 on the CPU.

        The last layer of a regression is scaled from [0, 1] to the unit of the data: outputs of 0 and 1 become the
        ends of `output_range`.
        """
        model = copy.deepcopy(self.model)
        placeholder: Any = model.base_model
        complete: Any = copy.deepcopy(encoder)
        if placeholder.pooler is not None:
            complete.pooler = placeholder.pooler
        if placeholder.pooler_activation is not None:
            complete.pooler_activation = placeholder.pooler_activation
        setattr(model, model.base_model_prefix, complete)
        low, high = self.output_range
        last = [module for module in model.modules() if isinstance(module, nn.Linear)][-1]
        if (low, high) != (0.0, 1.0):
            last.weight.data *= high - low
            last.bias.data = low + (high - low) * last.bias.data
        return model.float().cpu()


class LstmStates(NamedTuple):
    """The states of a BiLSTM: of all tokens, and the last ones of both directions."""

    outputs: Tensor  # states of both directions, float32 (B, L, 2 U); 0 at padding
    last: Tensor  # state of each direction at its end of the row, float32 (B, 2 U)


class BiLstm(nn.Module):
    """Two layers of an LSTM in both directions: BERT's paper, sections 5.1 and 5.3.

    Args:
        width: width of the inputs, D.
        dropout: probability of dropout between the layers.
        units: units of a layer in each direction, U.
    """

    def __init__(self, width: int, dropout: float, units: int = BILSTM_UNITS) -> None:
        super().__init__()
        self.lstm = nn.LSTM(width, units, num_layers=2, dropout=dropout, bidirectional=True, batch_first=True)
        self.width = 2 * units

    def forward(self, inputs: Tensor, lengths: Tensor) -> LstmStates:
        """Return the states of both directions.

        Args:
            inputs: rows of vectors, float32 (B, L, D).
            lengths: number of vectors in each row, those behind being padding, int64 (B,), at least 1.
        """
        packed = pack_padded_sequence(inputs, lengths.cpu(), batch_first=True, enforce_sorted=False)
        outputs, (last, _) = self.lstm(packed)
        outputs, _ = pad_packed_sequence(outputs, batch_first=True, total_length=inputs.size(1))
        return LstmStates(outputs, torch.cat([last[-2], last[-1]], dim=1))


class BiLstmHead(nn.Module):
    """A BiLSTM on all tokens, dropout, and a layer on its last states of both directions."""

    def __init__(self, width: int, num_labels: int, dropout: float) -> None:
        super().__init__()
        self.lstm = BiLstm(width, dropout)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(self.lstm.width, num_labels)

    def forward(self, hidden: Tensor, attention_mask: Tensor) -> Tensor:
        """Return logits (B, C) of hidden states, float32 (B, L, D), and their mask, int64 (B, L)."""
        return self.classifier(self.dropout(self.lstm(hidden, attention_mask.sum(1)).last))


class TaskModel(nn.Module):
    """An encoder and a head.

    As in the encoder, the weights of the head are drawn from a normal distribution with standard deviation
    `initializer_range`, and biases are zero. If transformers has no class for the head, a subclass overrides
    `exported` and `take_from`, and `Registration.architectures` names the class of the saved model: features.py has
    an example.
    """

    # True, or **kwargs in `forward`, makes Trainer multiply loss and gradient by the number of accumulation steps.
    accepts_loss_kwargs = False

    def __init__(self, encoder: PreTrainedModel, head: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.longest_input = longest_input(encoder)
        config = encoder.config
        self.is_left_to_right: bool = getattr(config, LEFT_TO_RIGHT_KEY, False)
        # RoBERTa has one token type: the 1 of a second text would be out of range.
        self.takes_token_types = (
            "token_type_ids" in inspect.signature(encoder.forward).parameters
            and getattr(config, "type_vocab_size", 0) > 1
        )
        for layer in head.modules():
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, std=getattr(config, "initializer_range", 0.02))
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)

    @property
    def transformers_head(self) -> TransformersHead:
        """Return the part of the head that is a class of transformers."""
        return next(part for part in self.head.modules() if isinstance(part, TransformersHead))

    def exported(self) -> PreTrainedModel:
        """Return the model as it is saved: a copy of encoder and head, in float32 on the CPU."""
        return self.transformers_head.with_encoder(self.encoder)

    def take_from(self, saved: PreTrainedModel) -> None:
        """Take over the head of a saved model that has the same encoder as this one."""
        self.transformers_head.take_from(saved)

    def hidden_states(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        token_type_ids: Tensor | None = None,
    ) -> Tensor:
        """Return the last hidden states (B, L, D); arguments int64 (B, L). Encoders with one token type ignore types.

        On a GPU the encoder sees rows of a multiple of 16 tokens, where it accepts them. In an encoder that is
        fine-tuned left to right, no token sees a later one.
        """
        return self.encoder_output(input_ids, attention_mask, token_type_ids)[0][:, : input_ids.size(1)]

    def encoder_output(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        token_type_ids: Tensor | None = None,
        **options: object,
    ) -> ModelOutput:
        """Return the encoder's output, of which only the first L positions count; arguments as in `hidden_states`.

        Args:
            options: further arguments of the encoder, such as `output_hidden_states`.
        """
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask}
        if self.takes_token_types and token_type_ids is not None:
            inputs["token_type_ids"] = token_type_ids
        length = input_ids.size(1)
        padding = -length % row_multiple(input_ids.device)
        if padding > 0 and length + padding <= self.longest_input:
            fill = {"input_ids": self.encoder.config.pad_token_id or 0}
            inputs = {name: F.pad(values, (0, padding), value=fill.get(name, 0)) for name, values in inputs.items()}
        if self.is_left_to_right:
            bias = causal_bias(inputs["input_ids"], self.encoder.dtype)
            options |= attention_inputs(self.encoder.config, bias)
        return self.encoder(**{**inputs, **options})


def predict_logits(model: nn.Module, rows: ColumnRows, collator: Collator, batch_size: int, precision: str) -> Array:
    """Return the output of a model for each of N rows, in the order of the rows, float32 (N, ...).

    Where the outputs of batches have different shapes, they are padded with -100. Each process of a distributed run
    computes a part of the batches, and gets all outputs. The model is left in evaluation mode. It does not see labels.

    Args:
        collator: function that makes the arguments of the model out of some rows.
        batch_size: rows of a batch, at most.
        precision: bf16, fp16 or fp32.
    """
    model.eval()
    process = PartialState()
    device = next(model.parameters()).device
    unlabelled = rows.without_labels()
    outputs = []
    for numbers in rows.batches(batch_size)[process.process_index :: process.num_processes]:
        batch = collator([unlabelled[number] for number in numbers])
        with torch.no_grad(), in_precision(device, precision):
            logits = model(**{name: values.to(device) for name, values in batch.items()})
        outputs.append((numbers, logits.float().cpu().numpy()))
    outputs = gather_object(outputs)
    shapes = [values.shape[1:] for _, values in outputs]
    logits = np.full((len(rows), *np.max(shapes, axis=0).astype(int)), IGNORED, np.float32)
    for (numbers, values), shape in zip(outputs, shapes, strict=True):
        logits[(numbers, *map(slice, shape))] = values
    return logits


class EncoderWithHead(TaskModel):
    """An encoder of width D with one of five heads.

    In an encoder that is fine-tuned left to right, the first token sees no other token. Therefore the head gets the
    last token in the first token's place.

    Args:
        encoder: a base model whose output begins with the last hidden states (B, L, D).
        head: "hf", that of transformers; "hf_mean", the same on the mean of all tokens; "google", that of
            google-research/electra, finetune/classification/classification_tasks.py; "mean_pool", that of
            rc2020_electra; "bilstm", that of section 5.1 of BERT's paper.
        num_labels: number of classes; 1 for a regression.
        dropout: probability of the head's dropout.
        auto_class: the class of transformers whose head is "hf" and "hf_mean".
    """

    def __init__(
        self,
        encoder: PreTrainedModel,
        head: str,
        num_labels: int,
        dropout: float = 0.1,
        auto_class: Any = AutoModelForSequenceClassification,
    ) -> None:
        module: nn.Module
        width = encoder.config.hidden_size
        if head in ("hf", "hf_mean"):
            module = TransformersHead(auto_class, encoder.config, dropout, num_labels, reads_mean=head == "hf_mean")
        elif head == "bilstm":
            module = BiLstmHead(width, num_labels, dropout)
        else:
            layers: list[nn.Module] = [nn.Dropout(dropout)]
            if head == "mean_pool":
                layers += [nn.Linear(width, width), nn.GELU()]
            module = nn.Sequential(*layers, nn.Linear(width, num_labels))
        super().__init__(encoder, module)
        self.head_name = head

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        token_type_ids: Tensor | None = None,
    ) -> Tensor:
        """Return logits, float32 (B, num_labels); arguments as in `hidden_states`."""
        hidden = self.hidden_states(input_ids, attention_mask, token_type_ids)
        if self.is_left_to_right:
            last = gather_hidden(hidden, attention_mask.sum(1, keepdim=True) - 1)
            hidden = torch.cat([last, hidden[:, 1:]], dim=1)
        if self.head_name in ("hf", "hf_mean"):
            return self.head(hidden, attention_mask).logits
        with full_precision(hidden):
            if self.head_name == "bilstm":
                return self.head(hidden.float(), attention_mask)
            if self.head_name == "mean_pool":
                is_token = attention_mask.unsqueeze(2).float()
                features = (hidden.float() * is_token).sum(1) / is_token.sum(1)
            else:
                features = hidden[:, 0].float()
            return self.head(features)


# ---- the encoder that fine-tuning starts from, trained or fresh, with its tokenizer

# model/pretrained.py loads the model and checks its weights. The tokenizer is checked here: a wrong one would give bad
# scores, not an error.


UNUSED_ROWS = 1000
"""Largest number of embeddings without a token: some tables are padded, mDeBERTa's by 898 rows."""


class Encoder(NamedTuple):
    """A base model in float32, without a head and if possible without a pooling layer, and its tokenizer.

    Args:
        name: path or Hub id of the model, as the user gives it.
        max_length: maximum input length in tokens, special ones included, that model and tokenizer take.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    name: str
    max_length: int


def load_encoder(pretrain_path: str, tokenizer_path: str | None = None) -> Encoder:
    """Load a trained encoder, by default with the tokenizer in its folder.

    Args:
        pretrain_path: path or Hub id, see `locate_model`.
        tokenizer_path: see `load_tokenizer`.
    Raises:
        UserError: the model is no encoder, a weight is missing, damaged or not finite, or the tokenizer does not
            match.
    """
    source = locate_model(pretrain_path)
    model = load_weights(source, read_config(source))
    tokenizer = _tokenizer(source, tokenizer_path)
    model_tokenizer = None if tokenizer_path is None else own_tokenizer(source, tokenizer_path)
    if model_tokenizer is not None and tokenizer_fingerprint(model_tokenizer) != tokenizer_fingerprint(tokenizer):
        raise UserError(
            f"the tokenizer {tokenizer_path} ({len(tokenizer)} tokens) differs from the one beside the model in "
            f"{source} ({len(model_tokenizer)} tokens); leave --tokenizer_path out to use the model's"
        )
    return _put_together(model, tokenizer, pretrain_path)


def encoder_of(model: PreTrainedModel, processing_class: PreTrainedTokenizerBase | None = None) -> Encoder:
    """Return a copy of the encoder of a model in memory, with the tokenizer `processing_class`.

    Args:
        processing_class: a tokenizer or its path; None for the tokenizer in the folder from which the model was
            loaded.
    Raises:
        UserError: the model is no encoder, a weight is not finite, or the tokenizer does not match.
    """
    name = name_of(model)
    return _put_together(base_model_of(model, name), tokenizer_of(model, processing_class), name)


def fresh_encoder(config_path: str, tokenizer_path: str | None = None) -> Encoder:
    """Build an untrained encoder; its weights are drawn from torch's current random state.

    Args:
        config_path: a model as for `load_encoder`, of which only configuration and tokenizer are used; or the name of
            a recipe, which has no tokenizer.
        tokenizer_path: see `load_tokenizer`. No weight has seen any tokenizer: only its size must fit.
    Raises:
        UserError: the model is no encoder, or the tokenizer is missing or does not fit.
    """
    config: PreTrainedConfig
    if config_path in RECIPES:
        if tokenizer_path is None:
            raise UserError(f"the recipe '{config_path}' has no tokenizer; pass one with --tokenizer_path")
        tokenizer = load_tokenizer(tokenizer_path)
        recipe: Mapping[str, Any] = RECIPES[config_path]
        sizes = (*SIZE_NAMES, *DROPOUTS, "initializer_range")  # other options describe the training
        config = network_config(
            vocab_size=vocabulary_size(tokenizer),
            pad_token_id=tokenizer.pad_token_id,
            model_type=recipe.get("discriminator_type", "electra"),
            **{name: value for name, value in recipe.items() if name in sizes},
        )
    else:
        source = locate_model(config_path)
        config = read_config(source)
        if isinstance(config, ElectraPretrainingConfig):
            config = config.discriminator
        tokenizer = _tokenizer(source, tokenizer_path)
    model = AutoModel.from_config(config, dtype=torch.float32, **without_pooling(config))
    return _put_together(model, tokenizer, config_path)


def fine_tuned_left_to_right(model: PreTrainedModel, name: str) -> PreTrainedModel:
    """Mark an encoder so that no token sees a later one in fine-tuning either, and return this encoder.

    Raises:
        UserError: the encoder was not trained left to right, or takes no such mask.
    """
    config = model.config
    if not getattr(config, CAUSAL_KEY, False):
        raise UserError(
            f"--left_to_right: the encoder of {name} sees the tokens on both sides; name a run with --objective causal"
        )
    if config.model_type not in BACKBONES or not can_share_rows(config, longest_text(config)):
        raise UserError(
            f"--left_to_right: an encoder of type {config.model_type} takes no mask that hides later tokens"
        )
    setattr(config, LEFT_TO_RIGHT_KEY, True)
    return model


def _tokenizer(source: str, tokenizer_path: str | None) -> PreTrainedTokenizerBase:
    """Load a tokenizer by its path; without a path, the one beside a model, in its folder or at its Hub id."""
    if tokenizer_path is not None:
        return load_tokenizer(tokenizer_path)
    if not may_have_tokenizer(source):
        raise UserError(f"there is no tokenizer beside the model in {source}; pass one with --tokenizer_path")
    return load_tokenizer_beside_model(source)


def _put_together(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, name: str) -> Encoder:
    """Return the encoder that a model and a tokenizer make.

    Raises:
        UserError: the tokenizer has no pad token, an id has no embedding, or more than `UNUSED_ROWS` embeddings have
            no id.
    """
    if tokenizer.pad_token_id is None:
        raise UserError(f"the tokenizer of {name} has no pad token, which batches need; pass another --tokenizer_path")
    rows = model.get_input_embeddings().num_embeddings
    tokens = vocabulary_size(tokenizer)
    if not rows - UNUSED_ROWS <= tokens <= rows:
        raise UserError(
            f"the tokenizer has {tokens} tokens, but {name} has embeddings for {rows}; pass the tokenizer of "
            f"the model with --tokenizer_path"
        )
    limit = tokenizer.model_max_length  # 10**30 if it has none
    return Encoder(model, tokenizer, name, min(longest_input(model), limit))


def encoder_fingerprint(encoder: Encoder, *, is_fresh: bool) -> str:
    """Return a hash of an encoder, 12 hexadecimal digits.

    The tokenizer is always hashed; the weights unless the encoder is fresh; the configuration if the encoder is fresh,
    or the file of the configuration was edited.

    Args:
        is_fresh: whether the weights are drawn anew in each run.
    """
    model = encoder.model
    digest = hashlib.sha256(tokenizer_fingerprint(encoder.tokenizer).encode())
    if is_fresh or differs_from_manifest(Path(name_of(model)), CONFIG_NAME):
        config = model.config.to_diff_dict()
        config.pop("transformers_version", None)
        public_values = {name: value for name, value in config.items() if name[0] != "_"}
        digest.update(json.dumps(public_values, sort_keys=True, default=str).encode())
    if not is_fresh:
        for name, value in sorted(model.state_dict().items()):
            content = value.detach().cpu().contiguous().flatten()
            digest.update(name.encode())
            digest.update(content.view(torch.uint8).numpy())
    return digest.hexdigest()[:12]
