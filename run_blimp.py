"""Score the minimal pairs of BLiMP with a discriminator, its generator, or any masked language model. No training.

    python run_blimp.py --pretrain_path output/small_owt                        BLiMP, from the Hub
    python run_blimp.py --pretrain_path output/small_owt --data blimp/data --score discriminator
    python run_blimp.py --pretrain_path google/electra-small-discriminator --generator google/electra-small-generator
    python run_blimp.py --pretrain_path bert-base-uncased --data pairs.jsonl

--help lists the options, docs/minimal_pairs.md the scores.
"""

from electra.io.errors import run_script
from electra.tasks.minimal_pairs.task import main

if __name__ == "__main__":
    run_script(main)
