# The two commands of the README. Each creates .venv first; `PYTHON=python3.12 make quickstart` chooses the interpreter.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: quickstart figures test test-fast pytest chaos lint docs docs-serve clean

quickstart: .venv/ready
	$(BIN)/python run_pretraining.py

# The picture of the README, from the last quickstart; needs Chromium.
figures: .venv/ready
	test -f output/quickstart/samples.json || $(BIN)/python run_pretraining.py
	$(BIN)/python -m docs.figures output/quickstart

PYTEST := HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1 WANDB_MODE=offline OMP_NUM_THREADS=1 \
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal

# Linter and type checker beside the tests: they use one core, and wait for nothing.
test: .venv/ready-dev
	@$(MAKE) --no-print-directory -j2 lint pytest

pytest: .venv/ready-dev
	$(PYTEST)

# Without the tests that train networks or start processes: about a minute on two cores.
test-fast: .venv/ready-dev lint
	$(PYTEST) -m "not slow"

# Some of it: python -m tests.chaos --kills 2 --segment_policy google, or --kills 20 --shards
chaos: .venv/ready-dev
	$(BIN)/python -m tests.chaos

lint: .venv/ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The pages of docs/ as a site, in output/site. A dead link ends it.
docs: .venv/ready-docs
	$(BIN)/mkdocs build --strict

docs-serve: .venv/ready-docs
	$(BIN)/mkdocs serve

.venv/python:
	@$(PYTHON) -c 'import sys; ok = (3, 11) <= sys.version_info < (3, 15); sys.exit(None if ok else "error: Python %d.%d found, 3.11 to 3.14 needed; name another one: PYTHON=python3.12 make" % sys.version_info[:2])'
	$(PYTHON) -m venv .venv
	touch $@

# The stamp files are created last, so an interrupted installation is repeated.
.venv/ready: requirements.txt pyproject.toml | .venv/python
	$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps -e .
	touch $@

.venv/ready-dev: requirements-dev.txt requirements-docs.txt .venv/ready
	$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements-dev.txt
	touch $@

.venv/ready-docs: requirements-docs.txt | .venv/python
	$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements-docs.txt
	touch $@

clean:
	rm -rf .venv cache output
