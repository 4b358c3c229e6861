#!/usr/bin/env bash
# The network of the package, electra/networks/tiny_en, from its text: tokenizer, pre-training, files in bfloat16.
#
#     bash runs/tiny_en.sh wiki_10m_words.txt wiki_held_out.txt
#     bash runs/tiny_en.sh wiki_10m_words.txt wiki_held_out.txt my_network      # another folder than the package's
#
# An hour and a half of one core. The card and the licence in the folder stay as they are: its scores are measured
# anew by hand. After an interruption, the same command continues.
set -euo pipefail

if [ $# -lt 2 ]; then
    echo "usage: bash runs/tiny_en.sh TRAIN_FILE HELD_OUT_FILE [FOLDER]" >&2
    exit 2
fi
export OMP_NUM_THREADS=1
tokenizer=output/tiny_en_tokenizer

test -d "$tokenizer" || python -m electra tokenizer --train_file "$1" --vocab_size 4096 --strip_accents \
    --output_dir "$tokenizer"
python -m electra pretrain --model_size tiny --train_file "$1" --validation_file "$2" \
    --tokenizer_path "$tokenizer" --max_eval_segments 1000 --eval_steps 3000 --save_steps 500 --seed 0 \
    --experiment_name tiny_en --auto_resume
python -m runs.package_network output/tiny_en "${3:-electra/networks/tiny_en}" --language en
