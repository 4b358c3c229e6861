"""The joint model that users build from a recipe or load from a run. core/joint.py has its forward pass."""

from os import PathLike
from pathlib import Path
from typing import Self

from transformers import AutoModel, AutoModelForPreTraining, PreTrainedConfig, set_seed
from transformers.utils import CONFIG_NAME

from electra.base.checkpoints import checkpoint_named
from electra.base.options import Values, check_seed
from electra.core.configuration import ElectraPretrainingConfig
from electra.core.errors import UserError
from electra.core.initialization import initialize, set_local_heads
from electra.core.joint import JointModel
from electra.core.tying import size_difference
from electra.model.build import joint_config
from electra.model.options import network_options
from electra.tokenizers.load import TokenizerLike, given_tokenizer


class ElectraForJointPretraining(JointModel):
    """A joint model that can be built from a recipe and loaded from a run; see `JointModel` for its `forward`."""

    @classmethod
    def from_pretrained(cls, path: str | PathLike[str] | None, *args: object, **options: object) -> Self:
        """Load the joint model of a run, a checkpoint or a Hub id; see `joint_source`.

        Args:
            args, options: further arguments of `PreTrainedModel.from_pretrained`.
        """
        return super().from_pretrained(joint_source(path, options), *args, **options)

    @classmethod
    def from_recipe(cls, recipe: str, tokenizer: TokenizerLike, *, seed: int = 42, **options: object) -> Self:
        """Build untrained networks of a recipe.

        The recipe's steps, batch size and learning rate belong to the training: `ElectraTrainingArguments.from_recipe`
        has them. `SegmentArguments` has the length, by default 128 as in `small`, `tiny` and `mini`.

        Args:
            recipe: a name of `RECIPES`: tiny, mini, small, modern-small, small++, base, large.
            tokenizer: gives vocabulary size, [MASK] and special tokens; an object of transformers, a path or a Hub id.
            seed: seed of the weights.
            options: fields of `ModelArguments` and `ObjectiveArguments` in place of the recipe's, such as
                generator_size, tie, discriminator_type, objective.
        Raises:
            UserError: an unknown recipe or option, or options that do not go together.
        """
        check_seed(seed)
        sizes, objective = network_options(recipe, options)
        config = joint_config(sizes, objective, given_tokenizer(tokenizer))
        return cls.untrained(config, sizes.initialization, seed)

    @classmethod
    def untrained(cls, config: ElectraPretrainingConfig, initialization: str, seed: int) -> Self:
        """Build the networks of a configuration with initial weights, which follow from the seed.

        Args:
            initialization: see `initialize`.
        Raises:
            UserError: the second stage is to start from a generator of another size.
        """
        set_seed(seed)
        model = cls(config)
        if model.objective.init_from_generator:
            difference = size_difference(model.generator, model.discriminator)
            if difference is not None:
                raise UserError(
                    f"the discriminator cannot start from the generator: {difference}; choose equal sizes and "
                    "--initialization normal, or --no_init_from_generator"
                )
        for network in filter(None, (model.discriminator, model.generator)):
            initialize(network, initialization)
        if initialization == "local":
            set_local_heads(model.discriminator)
        return model


def joint_source(path: str | PathLike[str] | None, options: Values) -> str | PathLike[str] | None:
    """Return the checkpoint or Hub id from which a joint model is loaded; for a run, its latest valid checkpoint.

    Args:
        path: folder of a run or a checkpoint, or a Hub id; None where the caller has the weights.
        options: keyword arguments of `from_pretrained`.
    Raises:
        UserError: the files are those of a single network, such as a discriminator, which would leave the joint model
            untrained.
    """
    if isinstance(path, str | Path) and Path(path).is_dir() and not (Path(path) / CONFIG_NAME).is_file():
        path = checkpoint_named(str(path))
    if path is None or options.get("config") is not None:
        return path
    names = ("subfolder", "revision", "token", "cache_dir", "local_files_only")
    values, _ = PreTrainedConfig.get_config_dict(path, **{name: options[name] for name in names if name in options})
    if values.get("model_type") != ElectraPretrainingConfig.model_type:
        raise UserError(f"{path} is a single network of type {values.get('model_type')}; name a run or a checkpoint-N")
    return path


# `AutoModel` opens a checkpoint from here on. Of an exported network it opens the class of transformers.
for _auto_class in (AutoModel, AutoModelForPreTraining):
    _auto_class.register(ElectraPretrainingConfig, ElectraForJointPretraining, exist_ok=True)
