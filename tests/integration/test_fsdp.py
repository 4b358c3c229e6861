"""FSDP on two processes: the weights of a run on one, checkpoints to go on from, networks to fine-tune.

Torch's own FSDP, on CPUs and gloo; only accelerate's choice of devices is changed.
"""

import json
import shutil

import accelerate.state
import pytest
import torch
from accelerate.utils import DistributedType
from safetensors.torch import load_file
from torch.testing import assert_close

from electra.base.checkpoints import find_damage
from electra.pretraining.run import main
from tests.helpers import exit_codes, fork_ranks, parametrize
from tests.pretraining.runs import flags, write_corpus

pytestmark = pytest.mark.slow

# Files for --fsdp_config, by name.
CONFIGS = {
    "default": {},
    "sharded": {"state_dict_type": "SHARDED_STATE_DICT", "transformer_layer_cls_to_wrap": ["ElectraLayer"]},
}
OPTIONS = {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0, "bf16": False, "max_steps": 4, "save_steps": 2}


def networks(run_folder):
    """Return the weights of both exported networks of a run."""
    files = ((role, load_file(run_folder / role / "model.safetensors")) for role in ("discriminator", "generator"))
    return {f"{role}.{name}": weight for role, weights in files for name, weight in weights.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a corpus and the run `one`, on one process."""
    folder = tmp_path_factory.mktemp("fsdp")
    write_corpus(folder / "corpus.txt")
    main(flags(folder, experiment_name="one", **OPTIONS, per_device_train_batch_size=8))
    return folder


def train_and_resume(folder, name, options):
    """Train a run, and one that goes on from its checkpoint of step 2.

    Accelerate takes gloo's processes for GPUs here: it gives FSDP to no CPU, torch does.
    """
    initialize = accelerate.state.PartialState.__init__

    def initialize_as_gpus(self, *args, **kwargs):
        initialize(self, *args, **kwargs)
        if self.distributed_type == DistributedType.MULTI_CPU:
            self.distributed_type = DistributedType.MULTI_GPU

    accelerate.state.PartialState.__init__ = initialize_as_gpus
    main(flags(folder, experiment_name=name, **options))
    copy = folder / "output" / f"{name}-resumed" / "checkpoint-2"
    if torch.distributed.get_rank() == 0:
        shutil.copytree(folder / "output" / name / "checkpoint-2", copy)
    torch.distributed.barrier()
    main(flags(folder, experiment_name=None, resume_from_checkpoint=copy, **options))


@parametrize("name", CONFIGS)
def test_sharded_runs_train_resume_and_export_alike(folder, name):
    config = folder / f"{name}.json"
    config.write_text(json.dumps(CONFIGS[name]))
    options = {**OPTIONS, "per_device_train_batch_size": 4, "fsdp": "full_shard", "fsdp_config": config}
    ranks = fork_ranks(train_and_resume, folder, name, options, folder=folder)
    assert exit_codes(ranks) == [0, 0], ranks[0].log.read_text()
    one, whole, resumed = (networks(folder / "output" / run) for run in ("one", name, f"{name}-resumed"))
    for weight_name, weight in one.items():
        # Adam divides by the gradient's size, so rounding moves weights whose gradient is nearly 0.
        assert_close(whole[weight_name], weight, rtol=0, atol=1e-4)
    assert all(torch.equal(resumed[weight_name], weight) for weight_name, weight in whole.items())
    checkpoint = folder / "output" / name / "checkpoint-2"
    assert find_damage(checkpoint) is None
    assert (checkpoint / "pytorch_model_fsdp_0").is_dir() == (name == "sharded")
