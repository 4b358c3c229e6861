"""Pre-train an ELECTRA on any corpus.

    python run_pretraining.py                                                  a few minutes, on Python's documentation
    python run_pretraining.py --train_file my_corpus/*.txt --experiment_name mine
    python run_pretraining.py --dataset_name openwebtext --model_size small
    python run_pretraining.py --config configs/pretraining/quickstart.yaml --generator_size 0.5
    python run_pretraining.py --dataset_name openwebtext --plan                prints cost and size; trains nothing

--help lists the options. Flags override --config, which overrides the recipe of --model_size and the defaults.
"""

from electra.tools.commands import run

if __name__ == "__main__":
    run("pretrain")
