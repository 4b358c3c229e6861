"""Pre-train ELECTRA on any text, fine-tune what it has learned, and look at what it finds odd.

    from electra import ElectraForJointPretraining, ElectraTrainer, ElectraTrainingArguments
    from electra import finish_run, load_tokenizer, tokenize_corpus

    tokenizer = load_tokenizer("bert-base-uncased")
    corpus = tokenize_corpus("corpus/*.txt", tokenizer)
    model = ElectraForJointPretraining.from_recipe("small", tokenizer, generator_size=0.25)
    args = ElectraTrainingArguments("output/mine", max_steps=100_000)
    trainer = ElectraTrainer(model=model, args=args, train_dataset=corpus, processing_class=tokenizer)
    trainer.train()
    finish_run(trainer)

    from electra import fine_tune, predict, replaced_token_probabilities

    tuned = fine_tune(model, "reviews.csv", processing_class=tokenizer)
    predict(tuned, ["What a film!"])
    replaced_token_probabilities("the chef ate the meal", model, tokenizer)

Each name is imported when it is first used, so `import electra` loads no torch. The first name that needs transformers
registers the joint model: from then on, AutoConfig and AutoModel open the checkpoints of a run. docs/python.md
describes all names.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from electra.core.configuration import ElectraPretrainingConfig as ElectraPretrainingConfig
    from electra.core.layer_decay import layer_decay_groups as layer_decay_groups
    from electra.core.recipes import RECIPES as RECIPES
    from electra.data.options import SegmentArguments as SegmentArguments
    from electra.data.shards import tokenize_corpus as tokenize_corpus
    from electra.data.token_cache import TokenCache as TokenCache
    from electra.data.tokenize import train_tokenizer as train_tokenizer
    from electra.finetuning.predict import FineTuned as FineTuned
    from electra.finetuning.predict import predict as predict
    from electra.finetuning.task import Task as Task
    from electra.model.joint import ElectraForJointPretraining as ElectraForJointPretraining
    from electra.pretraining.configuration import ElectraTrainingArguments as ElectraTrainingArguments
    from electra.pretraining.finish import finish_run as finish_run
    from electra.pretraining.trainer import ElectraTrainer as ElectraTrainer
    from electra.tasks.detect.task import TokenProbability as TokenProbability
    from electra.tasks.detect.task import replaced_token_probabilities as replaced_token_probabilities
    from electra.tokenizers.load import load_tokenizer as load_tokenizer
    from electra.tools.downstream import fine_tune as fine_tune

_MODULES = {
    "ElectraForJointPretraining": "electra.model.joint",
    "ElectraPretrainingConfig": "electra.core.configuration",
    "ElectraTrainer": "electra.pretraining.trainer",
    "ElectraTrainingArguments": "electra.pretraining.configuration",
    "FineTuned": "electra.finetuning.predict",
    "RECIPES": "electra.core.recipes",
    "SegmentArguments": "electra.data.options",
    "Task": "electra.finetuning.task",
    "TokenCache": "electra.data.token_cache",
    "TokenProbability": "electra.tasks.detect.task",
    "fine_tune": "electra.tools.downstream",
    "finish_run": "electra.pretraining.finish",
    "layer_decay_groups": "electra.core.layer_decay",
    "load_tokenizer": "electra.tokenizers.load",
    "predict": "electra.finetuning.predict",
    "replaced_token_probabilities": "electra.tasks.detect.task",
    "tokenize_corpus": "electra.data.shards",
    "train_tokenizer": "electra.data.tokenize",
}
"""Public name -> its module."""
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module 'electra' has no attribute {name!r}; its names are {', '.join(__all__)}")
    value = getattr(import_module(_MODULES[name]), name)
    if "transformers" in sys.modules:
        import_module("electra.model.joint")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
