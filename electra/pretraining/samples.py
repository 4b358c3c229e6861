"""A few held-out segments through the trained pair -> samples.json of the run."""

from pathlib import Path

from electra.model.probe import Corruption, probe, to_samples
from electra.pretraining.trainer import ElectraTrainer
from electra.samples import Sample, write_samples

COUNT = 5


def save_samples(trainer: ElectraTrainer, folder: Path) -> list[Sample]:
    """Corrupt the first held-out segments as every evaluation does, and keep what the networks make of them.

    Nothing is written where nothing is held out.
    """
    if trainer.eval_dataset is None:
        return []
    model, config, tokenizer = trainer.model, trainer.model.config, trainer.processing_class
    segments = trainer.eval_dataset.__getitems__(list(range(min(COUNT, len(trainer.eval_dataset)))))
    batch = {name: values.to(model.device) for name, values in trainer.data_collator(segments).items()}
    corruption = Corruption(
        mask_token_id=config.mask_token_id,
        special_token_ids=config.special_token_ids,
        mlm_probability=config.mlm_probability,
        mlm_replacement_probability=config.mlm_replacement_probability,
        mlm_random_probability=config.mlm_random_probability,
        sampling_temperature=config.sampling_temperature,
        disallow_correct=config.disallow_correct,
    )
    probed = probe(model.generator, model.discriminator, batch, corruption)
    samples = to_samples(probed, tokenizer)
    write_samples(samples, folder)
    return samples
