"""From options to data: corpora, tokenizer, token cache, training and evaluation segments."""

import hashlib
import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from accelerate import PartialState
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from electra.data.corpus import Corpus
from electra.data.policies import WindowPolicy, make_policy
from electra.data.segments import EvaluationSegments, SegmentPolicy
from electra.data.token_cache import TokenCache, load_or_build_cache, split_documents
from electra.data.tokenizer import load_or_train_tokenizer
from electra.model.pretrained import load_tokenizer_beside_model, refuse_another_tokenizer, trained_source
from electra.pretraining.options import Arguments
from electra.pretraining.resume import FIRST_HELD_OUT, tokenizer_of
from electra.tokenizer import check_tokenizer

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PretrainingData:
    """The data of a run."""

    tokenizer: PreTrainedTokenizerBase
    cache: TokenCache
    training_documents: NDArray[np.int64]
    held_out_lengths: NDArray[np.int64]
    """Tokens of each document that is held out."""
    policy: SegmentPolicy
    evaluation: EvaluationSegments | None
    text: dict[str, Any]
    """What is trained and evaluated on: numbers of documents and fingerprints, for origin.json."""


def load_data(args: Arguments, checkpoint: str | None) -> PretrainingData:
    """Open the corpora, tokenize them or open the cache, hold documents out, make training and evaluation segments.

    Args:
        checkpoint: that is resumed, if any; it decides the tokenizer.
    """
    options, data_seed = args.segments, args.training.data_seed
    corpus, files = Corpus(args.corpus, data_seed), options.validation_file
    others = replace(args.corpus, dataset_name=[], dataset_config_name=[], dataset_sampling=[], train_file=files)
    validation = Corpus(others, data_seed) if files else None  # opened early: a wrong path is refused at once
    tokenizer = _tokenizer(args, checkpoint, corpus)
    state = PartialState()
    with state.main_process_first():  # one process builds the cache, the others open it
        overwrite = args.cache.overwrite_cache and state.is_main_process
        cache = load_or_build_cache(corpus, tokenizer, args.cache.cache_dir, overwrite=overwrite)
    if validation is None:
        documents, held_out = split_documents(cache.content_hashes, options.validation_fraction, data_seed)
        held_out_cache = cache
    else:
        held_out_cache = load_or_build_cache(validation, tokenizer, args.cache.cache_dir)
        held_out = np.arange(len(held_out_cache))
        is_in_both = np.isin(cache.content_hashes, held_out_cache.content_hashes)
        documents = np.flatnonzero(~is_in_both)
        if is_in_both.any():
            logger.warning("%d training documents are also held out; they are left out of training", is_in_both.sum())
    length, evaluation = options.max_length, None
    policy = make_policy(options.segment_policy, cache, documents, max_length=length, seed=args.training.seed)
    if len(held_out):
        fixed = WindowPolicy(held_out_cache, held_out, max_length=length, seed=data_seed)
        evaluation = EvaluationSegments(fixed, max_segments=options.max_eval_segments, seed=data_seed)
    return PretrainingData(
        tokenizer=tokenizer,
        cache=cache,
        training_documents=documents,
        held_out_lengths=held_out_cache.lengths[held_out],
        policy=policy,
        evaluation=evaluation,
        text={
            "corpus": _fingerprint(cache.content_hashes),
            "documents": len(cache),
            "training_text": _fingerprint(cache.content_hashes[documents]),
            "training_documents": len(documents),
            FIRST_HELD_OUT: _fingerprint(held_out_cache.content_hashes[held_out]),
        },
    )


def _fingerprint(content_hashes: NDArray[np.uint64]) -> str:
    """Of documents in their order, whichever files they come from."""
    return hashlib.blake2b(content_hashes.tobytes(), digest_size=16).hexdigest()


def _tokenizer(args: Arguments, checkpoint: str | None, corpus: Corpus) -> PreTrainedTokenizerBase:
    """The checkpoint's tokenizer, the one named, that of the trained networks, or one trained on the corpus."""
    trained = args.model.init_discriminator or args.model.init_generator
    role = "discriminator" if args.model.init_discriminator else "generator"
    source = trained_source(trained, role) if trained and checkpoint is None else None
    path = args.tokenizer_path.tokenizer_path or source
    if checkpoint is not None:
        tokenizer = tokenizer_of(Path(checkpoint), path)
    elif path is not None:
        tokenizer = load_tokenizer_beside_model(path)
    else:
        tokenizer = load_or_train_tokenizer(corpus, args.tokenizer, args.cache.cache_dir, args.training.data_seed)
    check_tokenizer(tokenizer, checkpoint or path or "trained on the corpus")
    if source is not None and path != source:
        refuse_another_tokenizer(tokenizer, str(path), source)
    tokenizer.model_max_length = args.model.max_position_embeddings
    return tokenizer
