"""Fine-tune an encoder to label words, such as names (NER) or chunks, and score it, with several seeds.

    python run_tagging.py --pretrain_path output/small_owt --train_file eng.train --validation_file eng.testa
    python run_tagging.py --pretrain_path output/small_owt --dataset_name some/data --label_column chunk_tags

--help lists the options. Flags override --config (see configs/tagging/), which overrides the defaults.
An interrupted evaluation continues with the same command.
"""

from electra.io.errors import run_script
from electra.tasks.tagging.task import main

if __name__ == "__main__":
    run_script(main)
