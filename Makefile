# Everything runs in .venv, which every target sets up when it has to.
# Needs: Linux on x86-64, Python 3.11 to 3.13 with venv, a C compiler, make.

VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
INPUTS := requirements/lock.txt pyproject.toml lab/pyproject.toml tvm_ios/install/requirements.txt \
          tvm_ios/install/wheel.txt tvm_ios/install/finder.py tvm_ios/install/quick_import.py \
          tvm_ios/install/hook.py tvm_ios/install/compiled_ffi.py tvm_ios/install/native/libcuda_stub.c \
          tvm_ios/install/native/tvm_runtime_api.h
# The interpreter that .venv is made with: PYTHON=python3.12 make test
PYTHON ?= python3
# More for pip to install, such as -r FILE.
LOCK ?=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-all test-torch check bench docs wheel setup

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) ## tune two networks here, one that gains and one that cannot, and show why
	$(PY) -m tvm_ios demo

# A worker a core and one more, since some tests wait for others; as many as memory has room for.
# Tests that need quiet cores come last, one by one.
# Without kept bytecode each worker would rewrite all assertions anew, 7 seconds of a core.
unexport PYTHONDONTWRITEBYTECODE
WORKERS := $(shell expr $$(nproc) + 1)
PYTEST = $(PY) -m pytest --numprocesses $(WORKERS) --maxprocesses 8 --no-loadscope-reorder \
          --durations 20

# A process has one TVM: tests/relax runs in a second one, and what either says counts.
define BOTH
@$(PYTEST) $(1); relay=$$?; TVM_IOS_TVM=path $(PYTEST) $(1) tests/relax; relax=$$?; \
  said() { test $$1 = 0 && echo passed || echo "failed ($$1)"; }; \
  echo "make: tests with Relay $$(said $$relay), with Relax $$(said $$relax)"; \
  test $$relay$$relax = 00
endef

test: $(READY) ## run the tests, with two networks at full size
	$(call BOTH,-m "not full")

test-all: $(READY) ## run every test, with all networks at full size
	$(call BOTH,)

test-torch: ## run the tests that need PyTorch, in an environment of their own
	$(MAKE) VENV=.venv-torch LOCK='-r requirements/torch-lock.txt' setup
	.venv-torch/bin/python -m pytest --durations 10 -m "torch and not full" tests/pytorch
	TVM_IOS_TVM=path .venv-torch/bin/python -m pytest --durations 10 tests/relax/pytorch

# Quick tests wait for nobody, and each worker collects all of them.
check: WORKERS := $(shell nproc)
check: $(READY) ## lint, format, types and the quick tests
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	$(call BOTH,-m "not slow and not full")

bench: $(READY) ## measure all networks into lab/results
	$(PY) -m tvm_ios bench

docs: ## build the documentation into out/docs, in an environment of its own
	$(MAKE) VENV=.venv-docs LOCK='-r requirements/docs.txt' setup
	.venv-docs/bin/python -m sphinx -q -W --keep-going -b html -c docs . out/docs
	@echo 'out/docs/index.html'

wheel: ## build sdist and wheel into dist, and try the wheel in a fresh environment
	rm -rf dist
	$(PYTHON) -m venv --clear .venv-wheel
	.venv-wheel/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/wheel.txt
	.venv-wheel/bin/python -m build --outdir dist
	$(PYTHON) -m venv --clear .venv-wheel
	.venv-wheel/bin/python -m pip install --quiet --disable-pip-version-check "$$(echo dist/*.whl)[tvm]"
	.venv-wheel/bin/tvm-ios install-tvm
	.venv-wheel/bin/tvm-ios doctor
	.venv-wheel/bin/python -P tests/smoke.py

setup: $(READY) ## only set up the environment

# The stamp names the folder it was made in: a .venv that was moved, or whose installation was cut
# short, is repaired; one that lost its interpreter is made anew.
ifneq ($(shell cat $(READY) 2>/dev/null && $(PY) -c ''),$(CURDIR))
$(READY): broken
endif
.PHONY: broken
broken:

$(READY): $(INPUTS)
	@rm -f $@
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || { \
	  echo "make: $(PYTHON) is not Python 3.11 to 3.13; say which is: make PYTHON=python3.12 ..." >&2; \
	  exit 1; }
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV) || { \
	  rm -rf $(VENV); \
	  echo "make: $(PYTHON) cannot make a virtual environment; Debian: apt-get install python3-venv" >&2; \
	  exit 1; }
	@echo 'make: 1 of 3: packages of requirements/lock.txt into $(VENV)'
	@$(PY) -m pip install --disable-pip-version-check -r requirements/lock.txt $(LOCK)
	@echo 'make: 2 of 3: tvm-ios and its lab, from this checkout'
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . -e ./lab
	@echo 'make: 3 of 3: a TVM with Relay, 300 MB, and what it needs'
	@$(PY) -m tvm_ios install-tvm
	@$(PY) -c 'import tvm; from tvm import relay, autotvm, auto_scheduler'
	@printf '%s' '$(CURDIR)' > $@
