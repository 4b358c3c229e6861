"""run_pretraining.py where accelerate takes gloo's processes for GPUs: it would give FSDP to no CPU, torch does."""

import accelerate.state
from accelerate.utils import DistributedType

from electra.errors import run_script
from run_pretraining import main

initialize = accelerate.state.PartialState.__init__


def initialize_as_gpus(self: accelerate.state.PartialState, *args: object, **kwargs: object) -> None:
    initialize(self, *args, **kwargs)
    if self.distributed_type == DistributedType.MULTI_CPU:
        self.distributed_type = DistributedType.MULTI_GPU


if __name__ == "__main__":
    accelerate.state.PartialState.__init__ = initialize_as_gpus
    run_script(main)
