# Two commands matter: `make demo` shows the main job on real hosts of a lab on this machine, `make test`
# runs everything. Both set up what they need on a Debian-like machine with Python (as root: the lab
# installs packages and starts a container engine of its own).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Only these are collected for tests on hosts: reading all the others takes each worker ten seconds. Those that
# take longest begin first.
LONG_TESTS = $(patsubst %,tests/acceptance/test_%.py,engines engine_settings engine_settings_debian12 faults \
	one_true_path hosts saved_plans)
LAB_TESTS = $(LONG_TESTS) $(shell grep -rl --include='test_*.py' 'pytest.mark.lab' tests)
# Beside the lab's cache, so that a fresh clone is not checked from nothing.
export MYPY_CACHE_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/cpudeploy-mypy

.PHONY: demo demo-engines demo-down test lint unit lab-test faults docs lock clean

demo: $(READY)
	@$(BIN)/python -m tests.lab.demo

# vLLM beside llama.cpp on one host; the first time it also makes vLLM's image.
demo-engines: $(READY)
	@$(BIN)/python -m tests.lab.demo_engines

demo-down: $(READY)
	@$(BIN)/python -m tests.lab down
	@$(BIN)/python -m tests.lab down --name engines

test: lint unit lab-test

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Many tests wait, for downloads that stall and locks that are held: more workers than cores.
unit: $(READY)
	$(BIN)/pytest -m "not lab" -n 8 --dist worksteal --durations=10

# One lab for all workers; a file's tests stay in one worker, with hosts of their own.
lab-test: $(READY)
	$(BIN)/python -m tests.lab down --name test
	$(BIN)/python -m tests.lab up --name test
	CPUDEPLOY_KEEP_LAB=1 $(BIN)/pytest -m lab $(LAB_TESTS) -n 4 --dist loadfile --no-loadscope-reorder --durations=25; \
		code=$$?; $(BIN)/python -m tests.lab down --name test; exit $$code

# An hour or less: breaks upgrades in every way and writes docs/reliability.md. CASE='beside/*' runs some of it.
faults: $(READY)
	$(BIN)/python -m tests.faults $(if $(CASE),--case '$(CASE)') $(if $(SEED),--seed $(SEED))

docs: $(READY)
	$(BIN)/python -m cpudeploy.manifest.reference docs/manifest.head.md inventories/full.yaml > docs/manifest.md
	$(BIN)/python -m cpudeploy.report.schemas schemas

lock: $(READY)
	$(BIN)/uv lock

$(READY): pyproject.toml uv.lock
	@echo "setting up $(VENV): a minute or two, once"
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { apt-get update -q && apt-get install -q -y python3-venv; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install -q uv
	@UV_PROJECT_ENVIRONMENT=$(VENV) $(BIN)/uv sync -q --locked --inexact --python $(BIN)/python
	@touch $@

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache $(MYPY_CACHE_DIR)
