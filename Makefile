# Every target makes what it needs. PYTHON chooses the interpreter of the virtual environment: make PYTHON=python3.12
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# What is installed is remembered by a stamp: `.dev` for working on plugbay, `.node` for running it.
DEV := $(VENV)/.dev
NODE := $(VENV)/.node
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# One bench with NAME=plugin, else all; modules that begin with an underscore are shared by benches.
BENCHES := $(or $(NAME),$(patsubst bench/%.py,%,$(filter-out bench/_%,$(wildcard bench/*.py))))

.DEFAULT_GOAL := help
.PHONY: help demo test check bench proto soak clean

help:
	@echo "make demo     watch a device travel from a directory entry to a running pod"
	@echo "make test     run the tests"
	@echo "make check    lint, types, import contracts, generated files"
	@echo "make bench    measure; one bench with NAME=plugin"
	@echo "make proto    generate src/plugbay/wire/generated from the .proto files"
	@echo "make soak     run the long tests"
	@echo "make clean    remove the virtual environment and every cache"

# The developer's installation includes the node's.
demo: $(if $(wildcard $(DEV)),$(DEV),$(NODE))
	@$(BIN)/python tools/demo.py

# Tests of one file stay in one process: they share what is expensive to make.
test: $(DEV)
	$(BIN)/python -m pytest -n 2 --dist loadfile

check: $(DEV)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/proto.py --check

bench: $(DEV)
	@test -n "$(BENCHES)" || { echo "bench/ holds no bench" >&2; exit 1; }
	@failed=0; for name in $(BENCHES); do \
	    test -f "bench/$$name.py" || { echo "there is no bench $$name: bench/$$name.py is missing" >&2; exit 2; }; \
	    $(BIN)/python -m "bench.$$name" || failed=1; \
	done; exit $$failed

proto: $(DEV)
	$(BIN)/python tools/proto.py

soak: $(DEV)
	$(BIN)/python -m pytest -m soak --timeout 0

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache dist
	find src tests tools bench examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(DEV): pyproject.toml | $(BIN)/python
	$(PIP_INSTALL) -e '.[dev]'
	@touch $@

$(NODE): pyproject.toml | $(BIN)/python
	$(PIP_INSTALL) -e '.[node]'
	@touch $@

# Asked before, because a failing `venv` leaves a directory that looks made.
$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { \
	    echo "plugbay needs Python 3.11 or newer, and there is no $(PYTHON); choose one: make PYTHON=python3.12" >&2; \
	    exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "plugbay needs Python 3.11 or newer, $(PYTHON) is $$($(PYTHON) -V); choose another: make PYTHON=python3.12" >&2; \
	    exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "$(PYTHON) has no venv or ensurepip; install python3-venv (Debian, Ubuntu: apt-get install python3-venv)" >&2; \
	    exit 1; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
