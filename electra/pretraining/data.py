"""From options to the data of a run: its tokenizer, its token caches, and segments for training and evaluation."""

import copy
import hashlib
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from electra.base.checkpoints import start_checkpoint
from electra.core.errors import UserError, check_kind
from electra.core.rng import Ints
from electra.core.segments import EvaluationSegments, SegmentCollator, SegmentPolicy
from electra.data.corpus import Corpus, check_apart
from electra.data.foreign import open_cache
from electra.data.held_out import NO_DOCUMENTS, Documents, held_out_documents, shared_documents, text_fingerprint
from electra.data.options import SegmentArguments, held_out_texts
from electra.data.policies import WindowPolicy, make_policy
from electra.data.policies.packed import PackedPolicy
from electra.data.shards import describe_sources, load_or_build_cache
from electra.data.token_cache import TOKENIZER_NAME, TokenCache
from electra.data.tokenize import load_or_train_tokenizer
from electra.model.pretrained import load_tokenizer_beside_model, read_config, trained_source
from electra.pretraining.configuration import Configuration, ElectraTrainingArguments
from electra.pretraining.device import make_once
from electra.pretraining.metrics import check_text_names
from electra.pretraining.testset import CorruptedTestSet, check_test_set, read_test_set
from electra.report.runs import TESTSET
from electra.tokenizers.load import (
    check_tokenizer,
    given_tokenizer,
    is_tokenizer_of,
    load_tokenizer,
    tokenizer_fingerprint,
    vocabulary_size,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PretrainingData:
    """The data of a run: tokenizer, training segments, and what is held out."""

    segments: SegmentArguments
    tokenizer: PreTrainedTokenizerBase
    cache: TokenCache
    training_documents: Documents
    held_out_lengths: NDArray[np.int32]
    """Number of tokens of each document of the first held-out text, int32 (H,)."""
    policy: SegmentPolicy
    evaluation: EvaluationSegments | None
    """Segments of the first held-out text, which decides about checkpoints, gates and warnings."""
    more_evaluations: dict[str, EvaluationSegments | CorruptedTestSet]
    """Segments of the other held-out texts by name, and `TESTSET`."""
    test: EvaluationSegments | None
    """Segments of the test set, which are evaluated once, at the end."""
    sources: list[dict[str, Any]]
    """A dictionary for each source of the training text: `name`, and the numbers `documents` and `tokens`."""
    text_provenance: dict[str, Any]
    """Values of `RunProvenance` that describe the text: fingerprints and the number of training documents."""


class Texts(NamedTuple):
    """The text of a run: its token caches and their tokenizer.

    The other processes of a host receive it pickled, with the caches as paths.

    Args:
        held_out: held-out texts by name, the first of which decides about checkpoints; {} to hold out a share of
            `train`.
        sources: see `PretrainingData`.
    """

    tokenizer: PreTrainedTokenizerBase
    train: TokenCache
    held_out: Mapping[str, TokenCache]
    sources: list[dict[str, Any]]


class DocumentSplit(NamedTuple):
    """A split of the documents of a token cache into those that are trained on and those that are not."""

    left_out: Ints
    """Sorted numbers of all documents that are not trained on, int64 (N,): a share that is held out, or those that a
    held-out text also has; and the test set."""
    in_test: Ints
    """Sorted numbers of the documents of the test set, int64 (T,), which has none of the held-out text."""
    training_text: str
    """The fingerprint of the documents that are trained on."""


def load_data(args: Configuration, checkpoint: str | None) -> PretrainingData:
    """Return the data of a run: open or make the token caches, hold documents out, make segments.

    Args:
        checkpoint: checkpoint to resume, whose tokenizer is used; None for a new run.
    Raises:
        UserError: a text, a cache or a tokenizer cannot be read, they do not fit, or no document is left to train on.
    """
    # One process of each host opens the text and builds missing caches; then the others open what it has built.
    texts, split = make_once(lambda: _open_texts(args, checkpoint))
    return _data_of_texts(texts, split, args.segments, args.training)


def _open_texts(args: Configuration, checkpoint: str | None) -> tuple[Texts, DocumentSplit]:
    """Return tokenizer and token caches of a run, found or built now, and the split of its documents.

    Args:
        checkpoint: checkpoint to resume, whose tokenizer is used; None for a new run.
    """
    seed = args.training.eval_seed
    folder = args.cache.cache_dir
    check_apart(args.corpus.train_file, {"output_dir": args.training.output_dir, "cache_dir": folder})
    corpus = None if args.cache.token_cache else Corpus(args.corpus, seed)
    files_alone = replace(args.corpus, dataset_name=[], dataset_config_name=[], dataset_sampling=[])
    validation = {}  # opened early: a wrong path is refused at once
    for name, files in held_out_texts(args.segments.validation_file).items():
        validation[name] = Corpus(replace(files_alone, train_file=files), seed, "validation_file")
    tokenizer = _load_tokenizer_of_run(args, checkpoint, corpus)
    if corpus is None:
        cache = open_cache(Path(str(args.cache.token_cache)), tokenizer, folder)
        sources = [{"name": args.cache.token_cache, "documents": len(cache), "tokens": cache.num_tokens}]
    else:
        cache = load_or_build_cache(corpus, tokenizer, folder)
        sources = describe_sources(corpus, cache)
    held_out = {name: load_or_build_cache(text, tokenizer, folder) for name, text in validation.items()}
    # Not before the caches are written: the tokenizer in a cache does not depend on the length of a run.
    tokenizer.model_max_length = args.model.max_position_embeddings
    split = _split(cache, [*held_out.values()], args.segments, seed)
    return Texts(tokenizer, cache, held_out, sources), split


def _load_tokenizer_of_run(
    args: Configuration, checkpoint: str | None, corpus: Corpus | None
) -> PreTrainedTokenizerBase:
    """Return the tokenizer of a run, checked.

    It is the first that is given: that of the checkpoint to resume, of --init_checkpoint, of --tokenizer_path, of
    --init_discriminator or --init_generator, of --token_cache, or else one that is trained on the corpus.

    Raises:
        UserError: a tokenizer or the configuration of a network cannot be read, or the tokenizer cannot be used.
    """
    sources = []
    start = None
    if args.training.init_checkpoint and checkpoint is None:
        start = str(start_checkpoint(args.training.init_checkpoint))
        read_config(start)
    for role in ("discriminator", "generator"):
        name = getattr(args.model, f"init_{role}")
        if name and checkpoint is None:
            source = trained_source(name, role)
            read_config(source)  # a wrong name is refused before hours of tokenization
            sources.append(source)
    path = next(filter(None, (checkpoint, start, args.tokenizer_path.tokenizer_path, *sources)), None)
    if path is not None:
        tokenizer = load_tokenizer_beside_model(path)
    elif corpus is None:
        tokenizer = load_tokenizer_beside_model(str(Path(str(args.cache.token_cache), TOKENIZER_NAME)))
    else:
        tokenizer = load_or_train_tokenizer(corpus, args.tokenizer, args.cache.cache_dir, args.training.eval_seed)
    check_tokenizer(tokenizer, path or "of the text")
    return tokenizer


def data_of_run(
    train: TokenCache | PretrainingData,
    held_out: TokenCache | Mapping[str, TokenCache] | None,
    tokenizer: PreTrainedTokenizerBase | str | Path | None,
    segments: SegmentArguments,
    args: ElectraTrainingArguments,
) -> PretrainingData:
    """Return the data of a run that a program starts: made of its token caches, or `train` if it is the data already.

    Args:
        train: token cache of the text to train on, or the data of a run.
        held_out: held-out texts, by name if there are several, the first of which decides about checkpoints; None to
            hold out a share of `train`.
        tokenizer: the tokenizer of the token caches, its folder or its id on the Hub; needed for token caches.
        args: options of the run, for its seeds.
    Raises:
        UserError: the tokenizer is missing or not that of the token caches, `segments` names files to hold out, a text
            has a name that is not possible, or no document is left for training.
    """
    if isinstance(train, PretrainingData):
        return train
    if tokenizer is None:
        raise UserError("processing_class is missing: give the tokenizer of the token cache")
    tokenizer = copy.deepcopy(given_tokenizer(tokenizer))  # its model_max_length becomes that of the networks
    if segments.validation_file:
        raise UserError("segments.validation_file names files for the command; give token caches as eval_dataset")
    texts = _held_out_caches(held_out)
    for name, cache in (("train_dataset", train), *(("eval_dataset", text) for text in texts.values())):
        check_kind(cache, TokenCache, name, "a token cache, such as tokenize_corpus makes")
        _check_made_with(cache, tokenizer)
    check_tokenizer(tokenizer, "of the token cache")
    sources = [{"name": train.path.name, "documents": len(train), "tokens": train.num_tokens}]
    split = _split(train, [*texts.values()], segments, args.eval_seed)
    return _data_of_texts(Texts(tokenizer, train, texts, sources), split, segments, args)


def _held_out_caches(held_out: TokenCache | Mapping[str, TokenCache] | None) -> dict[str, TokenCache]:
    """Return the held-out texts that a program gives by name; one without a name is called ""."""
    if not isinstance(held_out, Mapping):
        return {} if held_out is None else {"": held_out}
    for name in held_out:
        if not re.fullmatch("[A-Za-z][A-Za-z0-9_]*|", name):
            raise UserError(f"eval_dataset has the name {name!r}; give a word of letters, digits and underscores")
    check_text_names(sorted(held_out.keys() - {""}))
    return dict(held_out)


def _check_made_with(cache: TokenCache, tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuse a tokenizer whose tokens are not those of a token cache."""
    if cache.description["tokenizer"] == tokenizer_fingerprint(tokenizer):
        return
    path = cache.path / TOKENIZER_NAME
    if path.is_dir() and not is_tokenizer_of(tokenizer, load_tokenizer(path)):
        raise UserError(f"{cache.path} was made with another tokenizer than processing_class; give that in {path}")


def _data_of_texts(
    texts: Texts, split: DocumentSplit, options: SegmentArguments, args: ElectraTrainingArguments
) -> PretrainingData:
    """Return the data of a run: training and evaluation segments of token caches, and a corrupted test set."""
    cache = texts.train
    left_out, in_test, training_text = split
    documents = Documents(len(cache), left_out)
    not_in_test = np.setdiff1d(left_out, in_test)
    held_out = {"": (cache, not_in_test)}
    if texts.held_out:
        held_out = {name: (text, np.arange(len(text))) for name, text in texts.held_out.items()}
        if len(not_in_test):
            logger.warning("%d training documents are also held out; they are left out of training", len(not_in_test))
    if options.test_fraction:
        logger.info("test set       %d documents, which are evaluated once, at the end", len(in_test))
    (first_name, (first_text, first_documents)), *_ = held_out.items()

    def segments_of(text: TokenCache, documents: Ints) -> EvaluationSegments | None:
        """Return windows whose masks are fixed, whatever the policy of training; None without documents."""
        if not len(documents):
            return None
        windows = WindowPolicy(text, documents, max_length=options.max_length, seed=args.eval_seed)
        return EvaluationSegments(windows, max_segments=options.max_eval_segments, seed=args.eval_seed)

    segments_of_text: dict[str, Any] = {name: segments_of(text, numbers) for name, (text, numbers) in held_out.items()}
    evaluations = {name: segments for name, segments in segments_of_text.items() if segments is not None}
    evaluation = evaluations.pop(first_name, None)
    hashes = [text.content_hashes[chosen] for text, chosen in held_out.values()]
    held_out_text = text_fingerprint(np.concatenate(hashes))
    if options.eval_corruption:
        corrupted = read_test_set(options.eval_corruption)
        check_test_set(corrupted, options.eval_corruption, texts.tokenizer, options.max_length)
        evaluations[TESTSET] = corrupted
        held_out_text = hashlib.blake2b((held_out_text + corrupted.fingerprint).encode(), digest_size=16).hexdigest()
    return PretrainingData(
        segments=options,
        tokenizer=texts.tokenizer,
        cache=cache,
        training_documents=documents,
        held_out_lengths=first_text.lengths[first_documents],
        policy=make_policy(
            options.segment_policy, cache, documents, max_length=options.max_length, seed=args.seed, options=options
        ),
        evaluation=evaluation,
        more_evaluations=evaluations,
        test=segments_of(cache, in_test),
        sources=texts.sources,
        text_provenance={
            "training_text": training_text,
            "training_documents": len(documents),
            "held_out_text": held_out_text,
            **({"test_text": text_fingerprint(cache.content_hashes[in_test])} if len(in_test) else {}),
        },
    )


def make_collator(data: PretrainingData, *, has_fixed_shapes: bool) -> SegmentCollator:
    """Return the collator of a run's batches.

    Args:
        has_fixed_shapes: whether all batches have the same shape, as compiled steps need it: rows are padded to
            `max_length`, not to the longest row.
    """
    return SegmentCollator.of(
        data.tokenizer,
        length=data.segments.max_length if has_fixed_shapes else None,
        most_segments=data.policy.most_segments if isinstance(data.policy, PackedPolicy) else 0,
        vocab_size=vocabulary_size(data.tokenizer),
    )


def _split(cache: TokenCache, held_out: Sequence[TokenCache], segments: SegmentArguments, seed: int) -> DocumentSplit:
    """Choose the documents that are held out of training, and those of the test set.

    Args:
        cache: token cache of the text to train on.
        held_out: token caches of held-out text, whose documents are left out of training; without them, a share of
            the documents is.
        seed: seed of the share that is held out, and of the test set.
    Raises:
        UserError: no document is left for training, or for the test set.
    """
    hashes = cache.content_hashes
    if held_out:
        left_out = shared_documents(hashes, np.concatenate([text.content_hashes for text in held_out]))
    else:
        left_out = held_out_documents(hashes, segments.validation_fraction, seed)
    in_test = NO_DOCUMENTS
    if segments.test_fraction:
        in_test = np.setdiff1d(held_out_documents(hashes, segments.test_fraction, seed, is_test=True), left_out)
        if not len(in_test):
            raise UserError("every document of the test set is in a --validation_file; raise --test_fraction")
        left_out = np.union1d(left_out, in_test)
    if len(left_out) == len(cache):
        raise UserError(
            "every training document is also held out; name other text with --validation_file, or lower "
            "--validation_fraction and --test_fraction"
        )
    return DocumentSplit(left_out, in_test, text_fingerprint(hashes, left_out))
