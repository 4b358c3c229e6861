"""Fine-tune an encoder on SQuAD 1.1 or 2.0 and score its answers, with several seeds.

    python run_squad.py --pretrain_path output/small_owt                       SQuAD 1.1, from the Hub
    python run_squad.py --pretrain_path output/small_owt --dataset_name squad_v2
    python run_squad.py --pretrain_path google/electra-small-discriminator --train_file train-v2.0.json \
        --validation_file dev-v2.0.json --config configs/squad/paper_v2.yaml

The version, 1.1 or 2.0, is detected from the data. --help lists the options. Flags override --config, which overrides
the defaults. An interrupted evaluation continues with the same command.
"""

from electra.io.errors import run_script
from electra.tasks.squad.task import main

if __name__ == "__main__":
    run_script(main)
