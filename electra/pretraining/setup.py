"""The steps from a command line to a trainer, in order; run_pretraining.py calls them one after the other."""

import logging
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase, PrinterCallback, ProgressCallback, set_seed
from transformers.trainer_utils import IntervalStrategy

from electra.arguments import (
    CorpusArguments,
    ModelArguments,
    ObjectiveArguments,
    PretrainingArguments,
    SegmentArguments,
    TokenizerArguments,
    TokenizerPathArguments,
    check_lengths,
)
from electra.command_line import CommandLine, effective_values, write_yaml
from electra.data.collator import SegmentCollator
from electra.data.corpus import Corpus, CorpusOptions
from electra.data.corpus_tokenizer import load_or_train_tokenizer
from electra.data.documents import TokenCache, load_or_build_cache, split_documents
from electra.data.policies import WindowPolicy, make_policy
from electra.data.segments import EvaluationSegments, SegmentPolicy, TrainingSegments
from electra.errors import UserError
from electra.model.configuration import ElectraPretrainingConfig, discriminator_config, generator_config
from electra.model.modeling import ElectraForJointPretraining
from electra.pretraining.plan import Plan, make_plan
from electra.pretraining.progress import ReadableProgress
from electra.pretraining.run_folder import (
    CONFIG_NAME,
    check_same_architecture,
    check_same_tokenizer,
    config_of_resumed_run,
    find_checkpoint,
    new_run_folder,
)
from electra.pretraining.trainer import ElectraTrainer
from electra.recipes import RECIPES
from electra.tokenization import TokenizerOptions, check_tokenizer, load_tokenizer

logger = logging.getLogger(__name__)

QUICKSTART = Path(__file__).parents[2] / "configs" / "pretraining" / "quickstart.yaml"


class Arguments(NamedTuple):
    """All options of a pre-training run, by subject."""

    corpus: CorpusArguments
    tokenizer_path: TokenizerPathArguments
    tokenizer: TokenizerArguments
    model: ModelArguments
    objective: ObjectiveArguments
    segments: SegmentArguments
    training: PretrainingArguments


@dataclass
class Run:
    """Where a run writes, and the checkpoint it continues from, if any."""

    folder: Path
    checkpoint: str | None


@dataclass
class Segments:
    """What is trained and evaluated on."""

    cache: TokenCache
    training_documents: NDArray[np.int64]
    held_out_documents: int
    policy: SegmentPolicy
    evaluation: EvaluationSegments | None
    source_names: list[str]


def parse_arguments(argv: list[str] | None = None) -> Arguments:
    """The options; the quickstart's where no corpus and no configuration is named."""
    command_line = CommandLine(list(Arguments.__annotations__.values()), "Pre-train an ELECTRA.")
    resumed = command_line.value_of("resume_from_checkpoint", argv)
    default_config = config_of_resumed_run(resumed) if resumed else None
    names_corpus = any(command_line.value_of(name, argv) for name in ("dataset_name", "train_file", "config"))
    if not names_corpus and default_config is None:
        default_config = str(QUICKSTART)
        logger.info(
            "No corpus named: using %s on the text that comes with Python. "
            "Name your own with --train_file FILES or --dataset_name NAMES.",
            os.path.relpath(QUICKSTART),
        )
    args = Arguments(*command_line.parse(argv, default_config))
    check_lengths(args.segments.max_length, args.model.max_position_embeddings)
    return args


def open_run(args: Arguments) -> Run:
    """Find the checkpoint to resume, or make a new folder; the same on every process."""
    training = args.training
    resume = training.resume_from_checkpoint
    state = PartialState()
    shared: list[Any] = [None]
    if state.is_main_process:
        try:
            if resume and resume.lower() not in ("false", "no", "0"):
                checkpoint = find_checkpoint(resume, training.output_dir, training.experiment_name)
                shared = [Run(checkpoint.parent, str(checkpoint))]
            else:
                shared = [Run(new_run_folder(training.output_dir, training.experiment_name), None)]
        except UserError as error:
            shared = [error]
    if state.num_processes > 1:
        broadcast_object_list(shared)
    run = shared[0]
    if isinstance(run, UserError):
        raise run
    if run.checkpoint is None and run.folder.name != training.experiment_name:
        logger.info(
            "%s is taken; this run goes to %s", Path(training.output_dir) / training.experiment_name, run.folder
        )
    if run.checkpoint is not None:
        logger.info("continuing %s", run.checkpoint)
    if state.is_main_process:
        always = [*RECIPES["small"], "experiment_name", "output_dir", "seed", "data_seed"]
        values = effective_values(args, always)
        values.pop("resume_from_checkpoint", None)
        write_yaml(values, run.folder / CONFIG_NAME, "Effective options of this run; --config reads them back.")
    training.output_dir = str(run.folder)
    training.run_name = training.run_name or run.folder.name
    return run


def open_corpora(args: Arguments) -> tuple[Corpus, Corpus | None]:
    """The training corpus, and the one to evaluate on if files of it are named."""
    corpus, seed = args.corpus, args.training.data_seed or 0
    training = Corpus(
        CorpusOptions(
            dataset_name=tuple(corpus.dataset_name),
            dataset_config_name=tuple(corpus.dataset_config_name),
            dataset_split=corpus.dataset_split,
            train_file=tuple(corpus.train_file),
            dataset_sampling=tuple(corpus.dataset_sampling),
            text_column=corpus.text_column,
            document_separator=corpus.document_separator,
            seed=seed,
        )
    )
    if not args.segments.validation_file:
        return training, None
    held_out = CorpusOptions(
        train_file=tuple(args.segments.validation_file),
        text_column=corpus.text_column,
        document_separator=corpus.document_separator,
        seed=seed,
    )
    return training, Corpus(held_out)


def get_tokenizer(args: Arguments, run: Run, corpus: Corpus) -> PreTrainedTokenizerBase:
    """The tokenizer named, the checkpoint's, or one trained on the corpus; stored with the run."""
    path = args.tokenizer_path.tokenizer_path or run.checkpoint
    if path is not None:
        tokenizer = load_tokenizer(path)
    else:
        options = args.tokenizer
        tokenizer = load_or_train_tokenizer(
            corpus,
            TokenizerOptions(
                tokenizer_algorithm=options.tokenizer_algorithm,
                vocab_size=options.vocab_size,
                min_frequency=options.min_frequency,
                lowercase=options.lowercase,
                strip_accents=options.strip_accents,
                max_documents=options.max_documents,
                seed=args.training.data_seed or 0,
            ),
            args.corpus.cache_dir,
        )
    check_tokenizer(tokenizer, path or "trained on the corpus")
    tokenizer.model_max_length = args.model.max_position_embeddings
    if run.checkpoint is not None:
        check_same_tokenizer(tokenizer, Path(run.checkpoint))
    elif PartialState().is_main_process:
        tokenizer.save_pretrained(run.folder / "tokenizer")
    return tokenizer


def make_segments(
    args: Arguments, tokenizer: PreTrainedTokenizerBase, corpus: Corpus, validation: Corpus | None
) -> Segments:
    """Tokenize what is not in the cache yet, hold documents out, and cut segments."""
    options, training = args.segments, args.training
    data_seed = training.data_seed or 0
    cache = load_or_build_cache(corpus, tokenizer, args.corpus.cache_dir, overwrite=args.corpus.overwrite_cache)
    if validation is None:
        documents, held_out = split_documents(cache.content_hashes, options.validation_fraction, data_seed)
        held_out_cache = cache
    else:
        held_out_cache = load_or_build_cache(validation, tokenizer, args.corpus.cache_dir)
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
    )


def build_model(args: Arguments, tokenizer: PreTrainedTokenizerBase) -> ElectraForJointPretraining:
    """The joint model with fresh weights."""
    sizes, objective = args.model, args.objective
    discriminator = discriminator_config(
        vocab_size=len(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        embedding_size=sizes.embedding_size,
        hidden_size=sizes.hidden_size,
        num_hidden_layers=sizes.num_hidden_layers,
        num_attention_heads=sizes.num_attention_heads,
        intermediate_size=sizes.intermediate_size,
        max_position_embeddings=sizes.max_position_embeddings,
        hidden_dropout_prob=sizes.hidden_dropout_prob,
        attention_probs_dropout_prob=sizes.attention_probs_dropout_prob,
    )
    generator, notes = generator_config(discriminator, sizes.generator_size, sizes.generator_layer_size)
    for note in notes:
        logger.info(note)
    set_seed(args.training.seed)
    return ElectraForJointPretraining(
        ElectraPretrainingConfig(
            generator,
            discriminator,
            mask_token_id=tokenizer.mask_token_id,
            special_token_ids=sorted(tokenizer.all_special_ids),
            mlm_probability=objective.mlm_probability,
            mlm_replacement_probability=objective.mlm_replacement_probability,
            discriminator_weight=objective.discriminator_weight,
            sampling_temperature=objective.temperature,
            disallow_correct=objective.disallow_correct,
        )
    )


def announce_plan(args: Arguments, run: Run, model: ElectraForJointPretraining, data: Segments) -> Plan:
    """Settle the number of steps, say what the run will take, and what in its options looks like a mistake."""
    training = args.training
    batch_size = training.train_batch_size * training.gradient_accumulation_steps * training.world_size
    steps_per_epoch = max(1, math.ceil(len(data.policy) / batch_size))
    if training.max_steps == -1:
        training.max_steps = math.ceil(training.num_train_epochs * len(data.policy) / batch_size)
    for event in ("eval", "save", "logging"):  # the data set is the whole run, so Trainer's own epoch is, too
        if getattr(training, f"{event}_strategy") == IntervalStrategy.EPOCH:
            setattr(training, f"{event}_strategy", type(getattr(training, f"{event}_strategy"))("steps"))
            setattr(training, f"{event}_steps", steps_per_epoch)
    if run.checkpoint is not None:
        check_same_architecture(model, Path(run.checkpoint))
    plan = make_plan(
        model,
        data.cache,
        held_out_documents=data.held_out_documents,
        segments_per_epoch=len(data.policy),
        steps=training.max_steps,
        batch_size=batch_size,
        max_length=args.segments.max_length,
    )
    for line in plan.lines():
        logger.info(line)
    logger.info("run folder     %s", run.folder)
    if training.save_strategy == "steps" and training.save_steps > training.max_steps:
        logger.warning(
            "save_steps=%g is more than max_steps=%d: the only checkpoint will be that of the last step. Steps are "
            "optimizer steps here, not samples.",
            training.save_steps,
            training.max_steps,
        )
    return plan


def make_trainer(
    args: Arguments,
    run: Run,
    model: ElectraForJointPretraining,
    tokenizer: PreTrainedTokenizerBase,
    data: Segments,
    plan: Plan,
) -> ElectraTrainer:
    """The trainer, with readable progress in place of Trainer's dictionaries."""
    training = args.training
    if data.evaluation is None:
        training.eval_strategy = IntervalStrategy.NO
    training.eval_on_start = data.evaluation is not None and run.checkpoint is None
    _check_reporting(training)
    trainer = ElectraTrainer(
        model=model,
        args=training,
        data_collator=SegmentCollator(tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id),
        train_dataset=TrainingSegments(data.policy, num_samples=plan.steps * plan.batch_size, seed=training.seed),
        eval_dataset=data.evaluation,
        processing_class=tokenizer,
        flops_per_token=plan.flops / plan.total_tokens,
        segments_per_epoch=len(data.policy),
    )
    if not training.disable_tqdm:
        trainer.remove_callback(ProgressCallback)
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(ReadableProgress)
    return trainer


def _check_reporting(training: PretrainingArguments) -> None:
    """Trackers that would stop the run at its first step are refused before it."""
    if "wandb" not in training.report_to or os.environ.get("WANDB_MODE") in ("offline", "disabled", "dryrun"):
        return
    import wandb

    if wandb.api.api_key is None:
        raise UserError(
            "--report_to wandb found no wandb account on this machine; run `wandb login`, or set WANDB_MODE=offline"
        )
