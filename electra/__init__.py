"""ELECTRA pre-training on the Hugging Face stack. Start at run_pretraining.py; docs/architecture.md has the map."""
