"""Two probes of the main network at each evaluation of a run: minimal pairs, and a linear probe on labelled texts.

A discriminator's AUC depends on its generator, these two numbers do not. They are computed on the main network as it
is, without training it and without random numbers, so that a run has the same weights with and without them.

    pairs_accuracy   --eval_pairs: share of the pairs whose acceptable sentence has the higher score, as
                     `electra pairs` computes it with the score of the main network: discriminator, electric, pll or
                     causal
    probe_accuracy   --eval_classify: accuracy of a logistic regression on the mean of the last hidden states of a
                     text, cross-validated in five parts
"""

import logging
import math
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from transformers import PreTrainedTokenizerBase

from electra.core.configuration import longest_text
from electra.core.errors import UserError
from electra.core.networks import encode
from electra.core.objectives import Objective
from electra.data.rows import read_rows
from electra.finetuning.data import Array, ColumnRows, PaddingCollator
from electra.finetuning.labelled.texts import TextColumns, encode_texts, read_examples
from electra.finetuning.row_checks import is_unlabelled
from electra.model.joint import ElectraForJointPretraining
from electra.pretraining.callbacks import Probe
from electra.tasks.minimal_pairs.accuracies import outcomes_of, summarize
from electra.tasks.minimal_pairs.data import Pair, load_pairs
from electra.tasks.minimal_pairs.scores import Scorer, SentenceBatch, encode_sentences

logger = logging.getLogger(__name__)

MOST_PAIRS = 500
"""Pairs of a file that are used, at most, because an evaluation must take seconds; see `draw_rows`."""
MOST_TEXTS = 2_400
"""Texts of a file that are used, at most, for the same reason."""
BATCH = 64
"""Texts of a forward pass."""
FOLDS = 5
"""Parts of the cross-validation."""
TEXT_PAIRS = (("premise", "hypothesis"), ("sentence1", "sentence2"))
"""Names of columns with two texts that are read as a pair."""


def make_probes(
    pairs_file: str | None,
    labels_file: str | None,
    model: ElectraForJointPretraining,
    tokenizer: PreTrainedTokenizerBase,
) -> list[Probe]:
    """Return the probes of --eval_pairs and --eval_classify, made from their files.

    Args:
        pairs_file, labels_file: paths of the files; None for no such probe.
        model: model whose main network the probes are for; no weights are read.
    Raises:
        UserError: a file cannot be read, a sentence of a pair is longer than the network reads, or fewer than two
            classes have `FOLDS` texts.
    """
    probes: list[Probe] = []
    longest = longest_text(model.config.discriminator)
    if pairs_file is not None:
        probes.append(PairsProbe.read(pairs_file, tokenizer, pair_score_of(model.objective), longest))
    if labels_file is not None:
        probes.append(LabelProbe.read(labels_file, tokenizer, longest))
    return probes


def pair_score_of(objective: Objective) -> str:
    """Return the name in `electra pairs` of the score that an objective's main network gives sentences."""
    if objective.finds_replaced:
        return "electric" if objective.is_energy_based else "discriminator"
    return "causal" if objective.is_causal else "pll"


def draw_rows(groups: Sequence[str], count: int) -> list[int]:
    """Return the numbers of `count` random rows, or of all if there are fewer, ascending; the same rows each time.

    Each group, a paradigm or a class, has an equal share, as far as it has rows. The rows of a group are drawn at
    random, because files may repeat their groups in a regular order.

    Args:
        groups: the group of each row.
    """
    order = np.random.default_rng(0).permutation(len(groups))
    shuffled = pd.Series([*groups], dtype=object).iloc[order]
    ranks = shuffled.groupby(shuffled).cumcount()
    return sorted(ranks.sort_values(kind="stable").index[:count].tolist())


@dataclass(frozen=True)
class PairsProbe:
    """A probe of minimal pairs.

    Args:
        groups: tokenized sentences by length; text 2 i is the good one of pair i, text 2 i + 1 the bad one.
        score: score that compares them, see `pair_score_of`.
    """

    pairs: Sequence[Pair]
    groups: Sequence[SentenceBatch]
    score: str
    mask_token_id: int

    @classmethod
    def read(cls, path: str, tokenizer: PreTrainedTokenizerBase, score: str, longest: int) -> "PairsProbe":
        """Return the probe of the pairs in a file.

        Args:
            longest: tokens of a sentence, at most.
        Raises:
            UserError: the file cannot be read, or a sentence is longer.
        """
        all_pairs = load_pairs(path)
        pairs = [all_pairs[number] for number in draw_rows([pair.paradigm for pair in all_pairs], MOST_PAIRS)]
        groups = encode_sentences([text for pair in pairs for text in (pair.good, pair.bad)], tokenizer)
        length = groups[-1].ids.shape[1]
        if length > longest:
            place = pairs[groups[-1].texts[0] // 2].place
            raise UserError(f"{place} has {length} tokens, more than the {longest} positions of the model; shorten it")
        logger.info("pairs          %d of %s, score: %s", len(pairs), path, score)
        return cls(pairs, groups, score, tokenizer.mask_token_id)

    def __call__(self, model: ElectraForJointPretraining) -> dict[str, float]:
        """Return `pairs_accuracy`, the mean over paradigms as a fraction, ties half; nan for a diverged network."""
        is_detector = self.score in ("discriminator", "electric")
        scorer = Scorer(
            model.discriminator if is_detector else None,
            None if is_detector else model.discriminator,
            self.mask_token_id,
            BATCH,
        )
        try:
            values = scorer.scores(self.groups, [self.score])[self.score]
        except UserError:  # not finite
            return {"pairs_accuracy": math.nan}
        return {"pairs_accuracy": summarize(self.pairs, outcomes_of(values))["overall"]["accuracy"]}


@dataclass(frozen=True)
class LabelProbe:
    """A probe of texts with labels.

    Args:
        rows: N tokenized texts, or pairs of texts.
        classes: number of each text's class, (N,).
    """

    rows: ColumnRows
    classes: Array
    collator: PaddingCollator

    @classmethod
    def read(cls, path: str, tokenizer: PreTrainedTokenizerBase, longest: int) -> "LabelProbe":
        """Return the probe of the texts in a file that have a label.

        Args:
            longest: tokens of a text that are read, at most.
        Raises:
            UserError: the file cannot be read, or has fewer than two classes of `FOLDS` texts.
        """
        rows = list(read_rows(path, skips_empty=True))
        named_columns = [TextColumns(*pair) for pair in TEXT_PAIRS if rows and {*pair} <= rows[0][1].keys()]
        columns = named_columns[0] if named_columns else TextColumns()
        labelled = [
            example
            for example in read_examples(rows, columns, needs_labels=True)
            if not is_unlabelled(example.label, ())
        ]
        numbers = draw_rows([str(example.label) for example in labelled], MOST_TEXTS)
        examples = [labelled[number] for number in numbers]
        labels = [str(example.label) for example in examples]
        counts = Counter(labels)
        frequent = [count for count in counts.values() if count >= FOLDS]
        if len(frequent) < 2:
            raise UserError(
                f"{path} has fewer than two classes with {FOLDS} texts each; give texts with one label each"
            )
        encoded, _ = encode_texts(examples, tokenizer, longest, in_windows=False)
        share = max(counts.values()) / len(labels)
        logger.info(
            "probe          %d texts of %s, %d classes; the most frequent has %.1f %%",
            len(labels), path, len(counts), 100 * share,
        )  # fmt: skip
        classes = np.unique(labels, return_inverse=True)[1]
        return cls(encoded, classes, PaddingCollator(tokenizer.pad_token_id))

    def __call__(self, model: ElectraForJointPretraining) -> dict[str, float]:
        """Return `probe_accuracy`, a fraction, cross-validated; nan for a diverged network."""
        features = self.features(model)
        if not np.isfinite(features).all():
            return {"probe_accuracy": math.nan}
        classifier = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=500))
        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)  # files may be sorted by label
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about rare classes, and steps that did not suffice
            return {"probe_accuracy": float(cross_val_score(classifier, features, self.classes, cv=folds).mean())}

    @torch.inference_mode()
    def features(self, model: ElectraForJointPretraining) -> Array:
        """Return the mean of the last hidden states of each text, float32 (N, D), in the order of the texts."""
        network = model.discriminator
        order = np.argsort(self.rows.lengths, kind="stable")
        means = []
        for start in range(0, len(order), BATCH):
            rows = [self.rows[row] for row in order[start : start + BATCH].tolist()]
            batch = {name: values.to(network.device) for name, values in self.collator(rows).items()}
            mask = batch["attention_mask"]
            hidden = encode(network, batch["input_ids"], mask, batch["token_type_ids"]).float()
            is_token = mask.unsqueeze(2)
            means.append(((hidden * is_token).sum(1) / is_token.sum(1)).cpu().numpy())
        features: Array = np.concatenate(means)[np.argsort(order)]
        return features
