"""Fine-tune an encoder on GLUE and score it, with several seeds.

    python run_glue.py --pretrain_path output/quickstart --tasks demo          a few minutes, needs no data
    python run_glue.py --pretrain_path output/small_owt                        all of GLUE, from the Hub
    python run_glue.py --pretrain_path google/electra-small-discriminator --glue_dir glue_data --num_seeds 10
    python run_glue.py --from_scratch output/small_owt --tasks cola rte        the same network, untrained

--help lists the options. Flags override --config, which overrides the defaults. The defaults are those of
configs/glue/paper.yaml with 5 instead of 10 seeds; --tasks demo uses configs/glue/demo.yaml unless --config is given.
An interrupted evaluation continues with the same command.
"""

from electra.tools.commands import run

if __name__ == "__main__":
    run("glue")
