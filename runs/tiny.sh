#!/usr/bin/env bash
# From a text to a scored model: tokenizer, pre-training, GLUE, minimal pairs, report.
#
#     bash runs/tiny.sh train.txt held_out.txt
#     SEED=1 GLUE=glue_data PAIRS=zorro bash runs/tiny.sh train.txt held_out.txt --max_steps 4000
#
# Further options are those of run_pretraining.py. GLUE and PAIRS are folders; without them, GLUE and BLiMP come from the
# Hub. The results are in output/tiny_SEED, or output/NAME. After an interruption, the same command goes on.
set -euo pipefail

text=${1:?"usage: bash runs/tiny.sh TRAIN_FILE HELD_OUT_FILE [option of run_pretraining.py ...]"}
held_out=${2:?"usage: bash runs/tiny.sh TRAIN_FILE HELD_OUT_FILE [option of run_pretraining.py ...]"}
shift 2
seed=${SEED:-0}
name=${NAME:-tiny_$seed}
tokenizer=tokenizers/$(basename "${text%.*}")_4096

if [ ! -e "$tokenizer" ]; then
    python -m electra tokenizer --train_file "$text" --vocab_size 4096 --strip_accents --output_dir "$tokenizer"
fi
python -m electra pretrain --model_size tiny --train_file "$text" --validation_file "$held_out" \
    --tokenizer_path "$tokenizer" --max_eval_segments 1000 --eval_steps 1000 --save_steps 1000 --seed "$seed" \
    --auto_resume --experiment_name "$name" "$@"
python -m electra glue --config configs/glue/tiny_cpu.yaml --pretrain_path "output/$name" --experiment_name "glue_$name" \
    ${GLUE:+--glue_dir "$GLUE"}
python -m electra pairs --pretrain_path "output/$name" --experiment_name "pairs_$name" ${PAIRS:+--data "$PAIRS"}
python -m electra report "output/$name" --glue "output/glue_$name"
