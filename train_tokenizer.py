"""Train a tokenizer for any language.

    python train_tokenizer.py --train_file my_corpus/*.txt --output_dir my_tokenizer
    python train_tokenizer.py --train_file kirja.txt --no_lowercase --vocab_size 32000
    python train_tokenizer.py --dataset_name wikitext --tokenizer_algorithm byte_bpe --max_documents 100000
    python train_tokenizer.py --extend google/electra-small-discriminator --train_file domain/ --new_tokens 2000

AutoTokenizer opens the resulting folder; the other commands take it as --tokenizer_path.
"""

from electra.tools.commands import run

if __name__ == "__main__":
    run("tokenizer")
