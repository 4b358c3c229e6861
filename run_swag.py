"""Fine-tune an encoder on multiple choice, such as SWAG, and score it, with several seeds.

    python run_swag.py --pretrain_path output/small_owt                        SWAG, from the Hub
    python run_swag.py --pretrain_path output/small_owt --train_file train.csv --validation_file dev.csv
    python run_swag.py --pretrain_path output/small_owt --dataset_name allenai/ai2_arc --dataset_config_name ARC-Easy

--help lists the options. Flags override --config (see configs/swag/), which overrides the defaults.
An interrupted evaluation continues with the same command.
"""

from electra.io.errors import run_script
from electra.tasks.multiple_choice.task import main

if __name__ == "__main__":
    run_script(main)
