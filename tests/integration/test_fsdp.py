"""FSDP on two processes: the weights of a run on one, checkpoints to go on from, networks to fine-tune.

Torch's own FSDP, on CPUs and gloo; only accelerate's choice of devices is changed (fsdp_on_cpu.py).
"""

import json

import pytest
import torch
from safetensors.torch import load_file
from torch.testing import assert_close

from electra.io.checkpoints import find_damage
from electra.pretraining.command import main
from tests.helpers import ROOT, parametrize, torchrun
from tests.pretraining.runs import flags, write_corpus

pytestmark = pytest.mark.slow

SHARDED = {"state_dict_type": "SHARDED_STATE_DICT", "transformer_layer_cls_to_wrap": ["ElectraLayer"]}
OPTIONS = {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0, "bf16": False, "max_steps": 4, "save_steps": 2}


def networks(run_folder):
    files = ((role, load_file(run_folder / role / "model.safetensors")) for role in ("discriminator", "generator"))
    return {f"{role}.{name}": weight for role, weights in files for name, weight in weights.items()}


@parametrize("config", [{}, SHARDED], ids=["default", "sharded"])
def test_sharded_runs_train_resume_and_export_alike(tmp_path, config):
    write_corpus(tmp_path / "corpus.txt")
    (tmp_path / "fsdp.json").write_text(json.dumps(config))
    options = {**OPTIONS, "per_device_train_batch_size": 4, "fsdp": "full_shard"}
    arguments = {**options, "fsdp_config": str(tmp_path / "fsdp.json")}
    program = ROOT / "tests" / "integration" / "fsdp_on_cpu.py"
    done = torchrun(program, [tmp_path, json.dumps(arguments)], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    main(flags(tmp_path, experiment_name="one", **OPTIONS, per_device_train_batch_size=8))
    one, whole, resumed = (networks(tmp_path / "output" / name) for name in ("one", "whole", "resumed"))
    for name, weight in one.items():
        assert_close(whole[name], weight, rtol=0, atol=1e-4)
    assert all(torch.equal(resumed[name], weight) for name, weight in whole.items())
    checkpoint = tmp_path / "output" / "whole" / "checkpoint-2"
    assert find_damage(checkpoint) is None
    assert (checkpoint / "pytorch_model_fsdp_0").is_dir() == bool(config)
