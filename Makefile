# Everything a contributor or CI runs. A virtual environment is made on demand; PYTHON names the interpreter for it.

PYTHON ?= python3
# Half of a test's time is waiting for processes that it started.
JOBS ?= $(shell echo $$((2 * $$(nproc 2>/dev/null || echo 2))))
NAME ?=
VARIANT ?= plugins
ARCH ?=

VENV := .venv
LOWEST := .venv-lowest
BIN := $(VENV)/bin
PIP := -m pip --disable-pip-version-check --quiet
PROFILE := fixed

# Tests start thousands of commands: each would compile anew what it imports, which takes longer than what it does.
unexport PYTHONDONTWRITEBYTECODE

# What shows in under a minute that the main things work: rules, command line, and one node with pods and plugins.
SMOKE := tests/test_commands.py $(addprefix tests/unit/,model topology allocation manager cdi cni wire cli) \
    tests/contract/wire/test_rpc.py tests/contract/sdk/test_with_manager.py \
    $(addprefix tests/contract/cli/test_node.py::,test_a_pod_is_run_watched_described_and_deleted \
        test_devices_are_shown_with_their_holder test_a_stopped_node_leaves_its_pods_running) \
    tests/contract/cli/test_pods.py::test_pods_are_waited_for_by_condition_value_and_end

.PHONY: help demo demo-gpu smoke test test-lowest e2e check format bench image proto deploy soak package deb clean pictures

help:
	@echo "make demo          watch a device travel from a directory entry to a running pod"
	@echo "make demo-gpu      eight fake A100s: pods on linked GPUs, an XID, and the way back; needs a C compiler"
	@echo "make smoke         run the tests that show in under a minute whether the main things work"
	@echo "make test          run the tests; some 10 minutes on two cores, and longer on busy ones"
	@echo "make e2e           pods on a real container engine, as root; installs Debian's packages if they are absent"
	@echo "make check         lint, types, import contracts, generated code"
	@echo "make bench         print every figure; NAME=plugin for one bench"
	@echo "make image         an OCI image of Debian packages and wheels in dist/image; VARIANT=nvidia, ARCH=amd64 for one processor"
	@echo "make format        let ruff put the code in shape"
	@echo "make proto         generate the wire code from the .proto files"
	@echo "make deploy        write the Helm chart and the bases for kustomize"
	@echo "make pictures      make the pictures of a node's page in docs/pictures; needs chromium"
	@echo "make soak          the tests again, long and with random examples"
	@echo "make test-lowest   run the tests with the oldest dependencies we declare"
	@echo "make package       build a wheel and an sdist in dist/"
	@echo "make deb           build a Debian package in dist/, for this machine's release; see tools/deb"
	@echo "make clean         remove what the other targets made"

demo: $(VENV)/.runs
	@$(BIN)/python tools/demo.py

demo-gpu: $(VENV)/.runs
	@$(BIN)/python -m tools.demo_gpu

smoke: $(VENV)/.develops
	@$(BIN)/pytest -q -n $(JOBS) --dist worksteal --hypothesis-profile=quick $(SMOKE)

test: $(VENV)/.develops
	@$(BIN)/pytest -q -n $(JOBS) --dist worksteal --hypothesis-profile=$(PROFILE)

check: $(VENV)/.develops
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/proto.py --check
	$(BIN)/python tools/deploy.py --check

format: $(VENV)/.develops
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.runs
	@$(BIN)/python -m bench $(NAME)

image: $(VENV)/.develops
	@$(BIN)/python -m tools.image --variant $(VARIANT) $(addprefix --arch ,$(ARCH)) --out dist/image

proto: $(VENV)/.develops
	$(BIN)/python tools/proto.py

package: $(VENV)/.develops
	$(BIN)/python -m build --no-isolation --outdir dist .

deploy: $(VENV)/.develops
	$(BIN)/python tools/deploy.py

pictures: $(VENV)/.develops
	@$(BIN)/python -m tools.pictures

deb: $(VENV)/.develops
	@$(BIN)/python -m tools.deb

soak: $(VENV)/.develops
	$(BIN)/pytest -q -n $(JOBS) --dist worksteal -m "" --timeout=3600 --hypothesis-profile=soak

# Two processes, which wait most of the time: what shares one containerd, and the rest.
e2e: $(VENV)/.develops $(VENV)/helm
	@tools/e2e_packages.sh
	@$(BIN)/pytest -q -n 2 --dist loadfile -m "e2e and not soak" --hypothesis-profile=$(PROFILE) tests/e2e

# What is nearest to each dependency: protobuf and hpack on the wire and in the manager, h11, wsproto, cryptography and jsonpatch
# in the node's API, msgspec in the records of runtimes, PyYAML in the unit tests, shtab in completion, pynvml in the NVIDIA plugin.
# What waits for containers, mounts and probes calls none of them in a way of its own.
WITHOUT_CONTAINERS := $(addprefix --ignore-glob=tests/contract/,runtimes/test_oci_* node/test_contained_* node/test_probe* \
    $(addprefix node/test_,background.py enclose.py killed.py missing_mounts.py runtime.py volumes.py))
test-lowest: $(LOWEST)/.tests
	@$(LOWEST)/bin/pytest -q -n $(JOBS) --dist worksteal -p no:cacheprovider --hypothesis-profile=quick tests/unit \
	    $(addprefix tests/contract/,wire http node manager runtimes cli/test_completion.py plugins/nvidia/test_serving.py) \
	    $(WITHOUT_CONTAINERS)

clean:
	rm -rf $(VENV) $(LOWEST) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests tools bench examples -name __pycache__ -type d -prune -exec rm -rf {} +

# --- virtual environments: each stamp says what was installed, from which pyproject.toml -----------------------------

$(VENV)/.runs: pyproject.toml | $(VENV)/.made
	@echo "installing what plugbay needs into $(VENV) (once) ..." >&2
	@$(BIN)/python $(PIP) install --editable '.[node,nvidia]'
	@touch $@

$(VENV)/.develops: pyproject.toml | $(VENV)/.made
	@echo "installing what the tests and checks need into $(VENV) (once) ..." >&2
	@$(BIN)/python $(PIP) install --editable '.[dev]'
	@touch $@ $(VENV)/.runs

$(VENV)/helm: tools/helm.py | $(VENV)/.develops
	@$(BIN)/python tools/helm.py $@
	@touch $@

$(LOWEST)/.tests: pyproject.toml tools/lowest.py | $(LOWEST)/.made
	@$(PYTHON) tools/lowest.py > $(LOWEST)/constraints.txt
	@echo "installing the oldest dependencies into $(LOWEST) (once) ..." >&2
	@$(LOWEST)/bin/python $(PIP) install --constraint $(LOWEST)/constraints.txt --editable '.[test]'
	@touch $@

%/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "plugbay needs Python 3.11 or newer, and '$(PYTHON)' is older; name one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	    echo "$(PYTHON) cannot make virtual environments; install python3-venv (Debian, Ubuntu: apt install python3-venv)" >&2; \
	    exit 1; }
	@echo "making $* (once) ..." >&2
	@$(PYTHON) -m venv $*
	@touch $@
