#!/usr/bin/env bash
# BabyLM's fine-tuning rows: ten million words, `tiny` and its masked language model at equal FLOPs, `electra classify` on
# each task with BabyLM's protocol. docs/babylm.md says where the rows are, and what is compared with what.
#
#     bash runs/babylm.sh train.txt held_out.txt babylm-eval/multilingual/finetune/data/multilingual/en
#     SEED=1 TASKS='mnli xnli sib200' bash runs/babylm.sh train.txt held_out.txt ROWS --tokenizer_path tokenizers/ten
#
# Further options are those of run_pretraining.py. ROWS has files NAME.train.jsonl and NAME.valid.jsonl, in any language
# and at any depth; TASKS are the beginnings of their names. SELECT=last scores the weights at which training stopped, as
# BabyLM's script does, instead of the best epoch's. RATE, NUM_SEEDS and STEPS change the rate, the number of fine-tuning
# seeds and the steps of pre-training. After an interruption, the same command continues.
set -euo pipefail

if [ $# -lt 3 ]; then
    echo "usage: bash runs/babylm.sh TRAIN_FILE HELD_OUT_FILE ROWS [option of run_pretraining.py ...]" >&2
    exit 2
fi
text=$1
held_out=$2
rows=$3
shift 3
seed=${SEED:-0}
steps=${STEPS:-12000}

words=$(wc -w < "$text")
if [ "$words" -gt 10000000 ]; then
    echo "$text has $words words; BabyLM's strict-small track allows 10,000,000" >&2
    exit 2
fi
files=$(find "$rows" -name '*.train.jsonl' | sort)
if [ -z "$files" ]; then
    echo "$rows has no file NAME.train.jsonl; name the folder of BabyLM's rows" >&2
    exit 2
fi

pretrain() { # NAME STEPS [option ...]
    local name=$1 count=$2
    shift 2
    python -m electra pretrain --model_size tiny --train_file "$text" --validation_file "$held_out" \
        --max_eval_segments 1000 --eval_steps 1000 --save_steps 1000 --max_steps "$count" --seed "$seed" --auto_resume \
        --experiment_name "$name" "$@"
}

classify() { # NAME OF THE RUN, TASK, TRAINING FILE
    local run=$1 task=$2 train=$3
    local columns=(--text_column sentence)
    if head -n 1 "$train" | grep -q '"premise"'; then
        columns=(--text_column premise --text_pair_column hypothesis)
    elif head -n 1 "$train" | grep -q '"sentence2"'; then
        columns=(--text_column sentence1 --text_pair_column sentence2)
    fi
    python -m electra classify --pretrain_path "output/$run" --experiment_name "${task}_$run" --task_name "$task" \
        --train_file "$train" --validation_file "${train%.train.jsonl}.valid.jsonl" "${columns[@]}" \
        --label_kind single --max_length 128 --per_device_train_batch_size 64 --num_train_epochs 10 --patience 3 \
        --select "${SELECT:-best}" --learning_rate "${RATE:-3e-4}" --layerwise_lr_decay 1 --warmup_steps 0 \
        --seed 12 --num_seeds "${NUM_SEEDS:-5}"
}

pretrain "babylm_$seed" "$steps" "$@"
# The masked language model has no generator: 99 % of the steps cost the same FLOPs (docs/results.md).
pretrain "babylm_mlm_$seed" $((steps * 99 / 100)) --objective mlm --initialization normal "$@"
for name in "babylm_$seed" "babylm_mlm_$seed"; do
    python - "output/$name/metrics.json" <<'PY'
import json
import sys

epochs = json.load(open(sys.argv[1], encoding="utf-8"))["plan"]["epochs"]
if epochs > 10:
    sys.exit(f"{sys.argv[1]}: {epochs:.1f} epochs; BabyLM allows 10: lower STEPS, or give more text")
PY
done
for train in $files; do
    task=$(basename "$train" .train.jsonl)
    if [ -n "${TASKS:-}" ] && ! grep -qw "${task%%_*}" <<< "$TASKS"; then
        continue
    fi
    classify "babylm_$seed" "$task" "$train"
    classify "babylm_mlm_$seed" "$task" "$train"
    python -m electra report "output/${task}_babylm_$seed" "output/${task}_babylm_mlm_$seed" \
        --output "output/${task}_compared_$seed"
done
