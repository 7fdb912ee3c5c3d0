# What a machine needs is made here: `make up` serves, `make test` tests. Everything is safe to run again.
.DEFAULT_GOAL := help
.PHONY: help up install fetch lint format test proof test-clients mac-check bench clean

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
DEPLOY ?= examples/deploy.yaml
# Test processes at once; many tests wait for processes of their own, so a few more than cores does no harm.
JOBS ?= 3

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is missing: install it (macOS: brew install python; Debian: apt-get install python3 python3-venv) or name it with make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "Python's venv module is missing (Debian: apt-get install python3-venv)"; exit 1; }
	@echo "== making $(VENV) with $(PYTHON)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	@echo "== installing appliance and its dependencies into $(VENV) (about a minute)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "== installing the development tools"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

install: $(VENV)/.installed  ## make .venv and install

fetch: install  ## fetch the models of $(DEPLOY)
	@$(BIN)/appliance pull --file $(DEPLOY)

up: fetch  ## fetch the default model and serve it, in the foreground
	@echo "== appliance up --file $(DEPLOY) (Ctrl-C stops it)"
	@exec $(BIN)/appliance up --file $(DEPLOY)

lint: $(VENV)/.installed-dev  ## ruff and mypy
	@echo "== ruff" && $(BIN)/ruff check . && $(BIN)/ruff format --check .
	@echo "== mypy (strict; all but engine/mlx and server)" && $(BIN)/mypy

format: $(VENV)/.installed-dev  ## let ruff rewrite what it can
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

test: $(VENV)/.installed-dev  ## the test suite, real model included (under 10 minutes)
	@echo "== pytest" && $(BIN)/python -m pytest -m 'not proof' -n $(JOBS) --dist loadfile

proof: $(VENV)/.installed-dev  ## the full counts behind our claims (long; results go into tests/bench/README.md)
	@echo "== pytest, full counts" && $(BIN)/python -m pytest -m proof

test-clients: $(VENV)/.installed-dev  ## LangChain, LiteLLM, AI SDK, … each in its own environment (tests/clients/README.md)
	@echo "== third-party clients, installed under .clients/" && $(BIN)/python tests/clients/run.py $(CLIENTS)

mac-check: $(VENV)/.installed-dev  ## what only a Mac can show: run it there and tell us
	@test "$$(uname -s)-$$(uname -m)" = Darwin-arm64 || { echo "mac-check needs an Apple silicon Mac; this is $$(uname -sm)"; exit 1; }
	@$(BIN)/python -m pytest -m 'not proof' tests/mlx tests/process tests/server

bench: $(VENV)/.installed-dev  ## side by side with mlx_lm.server (long)
	@$(BIN)/python -m tests.bench.compare

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
