# The two commands of the README. Each creates .venv first; `PYTHON=python3.12 make quickstart` chooses the interpreter.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: quickstart figures test test-fast pytest processors chaos lint commits docs docs-serve clean

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

# All tests as on other processors: sums of floating-point numbers are rounded otherwise there. Four times as long.
processors: .venv/ready-dev
	$(PYTEST)
	ONEDNN_MAX_CPU_ISA=AVX2 $(PYTEST)
	ONEDNN_MAX_CPU_ISA=SSE41 ATEN_CPU_CAPABILITY=default $(PYTEST)
	MKL_CBWR=COMPATIBLE $(PYTEST)

# Some of it: python -m tests.chaos --kills 2 --segment_policy google, or --kills 20 --cache
chaos: .venv/ready-dev
	$(BIN)/python -m tests.chaos

lint: .venv/ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Each commit of a branch by itself, in a folder of its own: ruff, and all modules can be imported. The first that
# fails ends it.
COMMITS ?= origin/main..HEAD
IMPORT_ALL := import electra, importlib, pkgutil; \
	[importlib.import_module(m.name) for m in pkgutil.walk_packages(electra.__path__, "electra.") if "__main__" not in m.name]

commits: .venv/ready-dev
	@folder=$$(mktemp -d) && git worktree add -q --detach $$folder && trap 'git worktree remove --force '$$folder EXIT && \
	for commit in $$(git rev-list --reverse $(COMMITS)); do \
		git -C $$folder checkout -q $$commit && cd $$folder && git log --oneline -1 && \
		$(CURDIR)/$(BIN)/ruff check -q . && $(CURDIR)/$(BIN)/ruff format --check -q . && \
		$(CURDIR)/$(BIN)/python -c '$(IMPORT_ALL)' || exit 1; \
	done

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
