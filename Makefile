# Everything a contributor or CI runs. A virtual environment is made on demand; PYTHON names the interpreter for it.

PYTHON ?= python3
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
NAME ?=

VENV := .venv
LOWEST := .venv-lowest
BIN := $(VENV)/bin
PIP := -m pip --disable-pip-version-check --quiet
PROFILE := fixed

# Tests start thousands of commands: each would compile anew what it imports, which takes longer than what it does.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-lowest e2e check format bench proto soak clean

help:
	@echo "make demo          watch a device travel from a directory entry to a running pod"
	@echo "make test          run the tests"
	@echo "make e2e           pods on a real container engine, as root; installs Debian's packages if they are absent"
	@echo "make check         lint, types, import contracts, generated code"
	@echo "make bench         print every figure; NAME=plugin for one bench"
	@echo "make format        let ruff put the code in shape"
	@echo "make proto         generate the wire code from the .proto files"
	@echo "make soak          the tests again, long and with random examples"
	@echo "make test-lowest   run the tests with the oldest dependencies we declare"
	@echo "make clean         remove what the other targets made"

demo: $(VENV)/.runs
	@$(BIN)/python tools/demo.py

test: $(VENV)/.develops
	@$(BIN)/pytest -q -n $(JOBS) --dist worksteal --hypothesis-profile=$(PROFILE)

check: $(VENV)/.develops
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/proto.py --check

format: $(VENV)/.develops
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.runs
	@$(BIN)/python -m bench $(NAME)

proto: $(VENV)/.develops
	$(BIN)/python tools/proto.py

soak: $(VENV)/.develops
	$(BIN)/pytest -q -n $(JOBS) --dist worksteal -m "" --timeout=3600 --hypothesis-profile=soak

# One process: all tests share one containerd.
e2e: $(VENV)/.develops
	@tools/e2e_packages.sh
	@$(BIN)/pytest -q -m e2e --hypothesis-profile=$(PROFILE) tests/e2e

test-lowest: $(LOWEST)/.tests
	@$(LOWEST)/bin/pytest -q -n $(JOBS) --dist worksteal -p no:cacheprovider --hypothesis-profile=quick tests/unit tests/contract

clean:
	rm -rf $(VENV) $(LOWEST) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests tools bench examples -name __pycache__ -type d -prune -exec rm -rf {} +

# --- virtual environments: each stamp says what was installed, from which pyproject.toml -----------------------------

$(VENV)/.runs: pyproject.toml | $(VENV)/.made
	@$(BIN)/python $(PIP) install --editable '.[node]'
	@touch $@

$(VENV)/.develops: pyproject.toml | $(VENV)/.made
	@$(BIN)/python $(PIP) install --editable '.[dev]'
	@touch $@ $(VENV)/.runs

$(LOWEST)/.tests: pyproject.toml tools/lowest.py | $(LOWEST)/.made
	@$(PYTHON) tools/lowest.py > $(LOWEST)/constraints.txt
	@$(LOWEST)/bin/python $(PIP) install --constraint $(LOWEST)/constraints.txt --editable '.[test]'
	@touch $@

%/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "plugbay needs Python 3.11 or newer, and '$(PYTHON)' is none; name one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	    echo "$(PYTHON) cannot make virtual environments; install python3-venv (Debian, Ubuntu: apt install python3-venv)" >&2; \
	    exit 1; }
	@$(PYTHON) -m venv $*
	@touch $@
