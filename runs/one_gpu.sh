#!/usr/bin/env bash
# From ten million words to a scored ELECTRA-Small on one GPU: tokenizer, ten epochs, minimal pairs, GLUE, report.
#
#     bash runs/one_gpu.sh train.txt held_out.txt
#     BUDGET=8m SEED=1 GLUE=glue_data PAIRS=zorro bash runs/one_gpu.sh train.txt held_out.txt --learning_rate 7e-4
#     SIZE=modern-small EPOCHS=5 bash runs/one_gpu.sh train.txt held_out.txt --learning_rate 1e-3
#
# With BUDGET, the steps are as many as fit into this time, instead of EPOCHS passes over the text; an interrupted run
# cannot go on then. Without BUDGET the same command continues. Further options are those of run_pretraining.py. GLUE and
# PAIRS are folders; without them, GLUE and BLiMP come from the Hub. TASKS names tasks of GLUE. The results are in
# output/SIZE_SEED, or output/NAME.
#
# Local heads start to learn after two million tokens instead of eighteen; that was found on a CPU, with batches of 8 and
# 16 rows. No GPU has run this script yet.
set -euo pipefail

if [ $# -lt 2 ]; then
    echo "usage: bash runs/one_gpu.sh TRAIN_FILE HELD_OUT_FILE [option of run_pretraining.py ...]" >&2
    exit 2
fi
text=$1
held_out=$2
shift 2
seed=${SEED:-0}
size=${SIZE:-small}
name=${NAME:-${size}_$seed}
if [ -n "${BUDGET:-}" ]; then
    if [ -e "output/$name" ]; then
        echo "error: output/$name exists; choose another NAME" >&2
        exit 2
    fi
    length=(--budget "$BUDGET")
else
    length=(--max_steps -1 --num_train_epochs "${EPOCHS:-10}" --auto_resume)
fi

python -m electra pretrain --model_size "$size" --initialization local --vocab_size 8192 --strip_accents \
    --train_file "$text" --validation_file "$held_out" --max_eval_segments 1000 "${length[@]}" --seed "$seed" \
    --experiment_name "$name" "$@"
python -m electra pairs --pretrain_path "output/$name" --experiment_name "pairs_$name" \
    --per_device_eval_batch_size 1024 ${PAIRS:+--data "$PAIRS"}
# shellcheck disable=SC2086
python -m electra glue --tasks ${TASKS:-qnli sst2} --num_seeds 1 --pretrain_path "output/$name" \
    --experiment_name "glue_$name" ${GLUE:+--glue_dir "$GLUE"}
python -m electra report "output/$name" --glue "output/glue_$name"
