"""A run, and one that goes on from its checkpoint of step 2, where accelerate takes gloo's processes for GPUs.

accelerate gives FSDP to no CPU, torch does. Arguments: the folder, and the options of both runs as JSON.
"""

import json
import shutil
import sys
from pathlib import Path

import accelerate.state
import torch.distributed
from accelerate.utils import DistributedType

from electra.io.errors import run_script
from electra.pretraining.command import main
from tests.pretraining.runs import flags

initialize = accelerate.state.PartialState.__init__


def initialize_as_gpus(self, *args, **kwargs):
    initialize(self, *args, **kwargs)
    if self.distributed_type == DistributedType.MULTI_CPU:
        self.distributed_type = DistributedType.MULTI_GPU


def train_and_resume():
    folder, options = Path(sys.argv[1]), json.loads(sys.argv[2])
    main(flags(folder, experiment_name="whole", **options))
    copy = folder / "output" / "resumed" / "checkpoint-2"
    if torch.distributed.get_rank() == 0:
        shutil.copytree(folder / "output" / "whole" / "checkpoint-2", copy)
    torch.distributed.barrier()
    main(flags(folder, resume_from_checkpoint=copy, **options))


if __name__ == "__main__":
    accelerate.state.PartialState.__init__ = initialize_as_gpus
    run_script(train_and_resume)
