#!/usr/bin/env bash
# Decays of one stable run against runs of their own: pairs of one length, on a fixed test set and on QNLI.
#
#     bash runs/anneal.sh train.txt held_out.txt
#     GLUE=glue_data LENGTHS=4 THOUSAND=10 VOCAB=300 bash runs/anneal.sh train.txt held_out.txt --hidden_size 48
#
# A run of `tiny` with a constant rate is annealed over the last tenth of 4, 8 and 12 thousand steps (--init_checkpoint); a
# run of its own of each length has the recipe's linear decay. All see the same text. The generator of a yardstick of
# another seed corrupts the held-out text once for all of them. Further options are those of run_pretraining.py, for the
# runs from scratch. LENGTHS are the lengths in thousands of steps, THOUSAND is a thousand, VOCAB the size of the
# vocabulary, GLUE a folder; without it QNLI comes from the Hub. The results are in output/anneal_* and
# output/glue_anneal_*, the last command compares the runs. After an interruption, the same command continues.
set -euo pipefail

if [ $# -lt 2 ]; then
    echo "usage: bash runs/anneal.sh TRAIN_FILE HELD_OUT_FILE [option of run_pretraining.py ...]" >&2
    exit 2
fi
text=$1
held_out=$2
shift 2
lengths=${LENGTHS:-4 8 12}
thousand=${THOUSAND:-1000}
fixed=output/anneal_fixed.safetensors
own=(--model_size tiny --eval_corruption "$fixed" --tokenizer_path output/anneal_yardstick/tokenizer "$@")
runs=()

pretrain() { # NAME OPTION ...
    local name=$1
    shift
    python -m electra pretrain --train_file "$text" --validation_file "$held_out" --max_eval_segments 1000 \
        --save_total_limit 0 --auto_resume --experiment_name "anneal_$name" "$@"
}

pretrain yardstick --model_size tiny --vocab_size "${VOCAB:-4096}" --seed 7 --max_steps $((4 * thousand)) "$@"
[ -f "$fixed" ] || python -m electra testset --pretrain_path output/anneal_yardstick --validation_file "$held_out" \
    --output_file "$fixed"

longest=${lengths##* }
pretrain stable --lr_scheduler_type constant_with_warmup --max_steps $((longest * thousand * 9 / 10)) \
    --save_steps $((36 * thousand / 10)) "${own[@]}"
for length in $lengths; do
    steps=$((length * thousand))
    decay=$((steps / 10))
    pretrain "decay_$length" --init_checkpoint "output/anneal_stable/checkpoint-$((steps - decay))" --warmup_steps 0 \
        --max_steps "$decay" --eval_corruption "$fixed"
    pretrain "own_$length" --max_steps "$steps" "${own[@]}"
    for name in "anneal_decay_$length" "anneal_own_$length"; do
        python -m electra glue --config configs/glue/tiny_cpu.yaml --tasks qnli --pretrain_path "output/$name" \
            --experiment_name "glue_$name" ${GLUE:+--glue_dir "$GLUE"}
        runs+=("output/$name")
    done
done
python -m electra report "${runs[@]}"
