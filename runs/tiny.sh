#!/usr/bin/env bash
# From a text to a scored model: tokenizer, pre-training, GLUE, minimal pairs, report.
#
#     bash runs/tiny.sh train.txt held_out.txt
#     SEED=1 GLUE=glue_data PAIRS=zorro bash runs/tiny.sh train.txt held_out.txt --strip_accents --max_steps 4000
#
# Further options are those of run_pretraining.py. GLUE and PAIRS are folders; without them, GLUE and BLiMP come from the
# Hub. The results are in output/tiny_SEED, or output/NAME. After an interruption, the same command continues.
set -euo pipefail

if [ $# -lt 2 ]; then
    echo "usage: bash runs/tiny.sh TRAIN_FILE HELD_OUT_FILE [option of run_pretraining.py ...]" >&2
    exit 2
fi
text=$1
held_out=$2
shift 2
seed=${SEED:-0}
name=${NAME:-tiny_$seed}

python -m electra pretrain --model_size tiny --train_file "$text" --validation_file "$held_out" \
    --max_eval_segments 1000 --eval_steps 1000 --save_steps 1000 --seed "$seed" --auto_resume \
    --experiment_name "$name" "$@"
python -m electra glue --config configs/glue/tiny_cpu.yaml --pretrain_path "output/$name" --experiment_name "glue_$name" \
    ${GLUE:+--glue_dir "$GLUE"}
python -m electra pairs --pretrain_path "output/$name" --experiment_name "pairs_$name" ${PAIRS:+--data "$PAIRS"}
python -m electra report "output/$name" --glue "output/glue_$name"
