"""From options to what is trained on: corpora, the tokenizer, the token cache, training and evaluation segments."""

import logging
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from accelerate import PartialState
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from electra.data.corpus import Corpus
from electra.data.corpus_tokenizer import load_or_train_tokenizer
from electra.data.documents import TokenCache, load_or_build_cache, split_documents
from electra.data.policies import WindowPolicy, make_policy
from electra.data.segments import EvaluationSegments, SegmentPolicy
from electra.model.pretrained import load_tokenizer_beside_model, refuse_another_tokenizer, trained_source
from electra.pretraining.agreement import check_same_tokenizer
from electra.pretraining.options import Arguments, corpus_options, tokenizer_options
from electra.pretraining.origin import fingerprint_of
from electra.pretraining.run_folder import Run
from electra.tokenization import check_tokenizer

logger = logging.getLogger(__name__)


@dataclass
class Segments:
    """What is trained and evaluated on."""

    cache: TokenCache
    training_documents: NDArray[np.int64]
    held_out_documents: int
    policy: SegmentPolicy
    evaluation: EvaluationSegments | None
    source_names: list[str]
    held_out: str
    """Fingerprint of the held-out documents."""


def open_corpora(args: Arguments) -> tuple[Corpus, Corpus | None]:
    """The training corpus, and the one to evaluate on if files of it are named."""
    seed = args.training.data_seed
    training = corpus_options(args.corpus, seed)
    if not args.segments.validation_file:
        return Corpus(training), None
    files = tuple(args.segments.validation_file)
    held_out = replace(training, dataset_name=(), dataset_config_name=(), dataset_sampling=(), train_file=files)
    return Corpus(training), Corpus(held_out)


def get_tokenizer(args: Arguments, run: Run, corpus: Corpus) -> PreTrainedTokenizerBase:
    """The tokenizer named, the checkpoint's, that of the trained networks, or one trained on the corpus."""
    trained = args.model.init_discriminator or args.model.init_generator
    role = "discriminator" if args.model.init_discriminator else "generator"
    source = trained_source(trained, role) if trained and run.checkpoint is None else None
    path = args.tokenizer_path.tokenizer_path or run.checkpoint or source
    if path is not None:
        tokenizer = load_tokenizer_beside_model(path)
    else:
        options = tokenizer_options(args.tokenizer, args.training.data_seed)
        tokenizer = load_or_train_tokenizer(corpus, options, args.cache.cache_dir)
    check_tokenizer(tokenizer, path or "trained on the corpus")
    if source is not None and path != source:
        refuse_another_tokenizer(tokenizer, str(path), source)
    tokenizer.model_max_length = args.model.max_position_embeddings
    if run.checkpoint is not None:
        check_same_tokenizer(tokenizer, Path(run.checkpoint))
    return tokenizer


def make_segments(
    args: Arguments, tokenizer: PreTrainedTokenizerBase, corpus: Corpus, validation: Corpus | None
) -> Segments:
    """Tokenize what is not in the cache yet, hold documents out, and cut segments."""
    options, training = args.segments, args.training
    data_seed = training.data_seed
    state = PartialState()
    with state.main_process_first():  # builds, or builds again, once; the others open what it has built
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
            logger.warning("%d training documents are also held out: they are not trained on", is_in_both.sum())
    policy = make_policy(options.segment_policy, cache, documents, max_length=options.max_length, seed=training.seed)
    evaluation = None
    if len(held_out):
        fixed = WindowPolicy(held_out_cache, held_out, max_length=options.max_length, seed=data_seed)
        evaluation = EvaluationSegments(fixed, max_segments=options.max_eval_segments, seed=data_seed)
    return Segments(
        cache=cache,
        training_documents=documents,
        held_out_documents=len(held_out),
        policy=policy,
        evaluation=evaluation,
        source_names=[str(source["name"]) for source in corpus.describe()],
        held_out=fingerprint_of(held_out_cache.content_hashes[held_out]),
    )
