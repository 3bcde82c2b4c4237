# Needs Python 3.11 or newer, git and make; everything else is installed into .venv at pinned versions.

PYTHON ?= python3
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
UV := build/uv/bin/uv
UV_VERSION := 0.13.9
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
ROOMS := domain infra workers
LINKS := $(ROOMS:%=.typing/signoff/%)
# These share nothing but the processors, and mostly wait for a database; those after them start whole systems.
SIDE_BY_SIDE := unit contract integration
ALONE := acceptance packaging
WORKERS := 3

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' Makefile

install: $(INSTALLED) ## Create .venv with the pinned packages and Signoff, editable

$(INSTALLED): requirements/dev.txt pyproject.toml setup.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed; name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "Installing into $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --require-hashes -r requirements/dev.txt
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

typing: $(LINKS) ## Link the rooms under their import names, for type checkers

.typing/signoff/%:
	@mkdir -p .typing/signoff
	@ln -sfn ../../$* $@

check: $(INSTALLED) $(LINKS) ## Lint, format, types, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p signoff -p tests -p examples
	$(BIN)/lint-imports

test: $(INSTALLED) ## All tests but faults, benchmarks and browser
	$(BIN)/python -m pytest --numprocesses $(WORKERS) $(SIDE_BY_SIDE:%=tests/%) $(ARGS)
	$(BIN)/python -m pytest $(ALONE:%=tests/%) $(ARGS)

unit contract integration acceptance packaging: $(INSTALLED)
	$(BIN)/python -m pytest tests/$@ $(ARGS)

unit: ## Tests of rules alone: no I/O
contract: ## Every implementation of a port against its contract
integration: ## Tests with Postgres and Redis
acceptance: ## Tests of whole processes from outside
packaging: ## Wheel, sdist, pins, compose and image

faults: $(INSTALLED) ## The table of faults, then worker code under lost writes (SIGNOFF_TEST_SEEDS=N tries more)
	$(BIN)/python -m pytest $$($(BIN)/python -m tests.faults.rows) $(ARGS)
	SIGNOFF_TEST_LOST_REPLIES=0.01 $(BIN)/python -m pytest --numprocesses $(WORKERS) tests/integration $(ARGS)

soak: $(INSTALLED) ## A quarter of an hour of random faults over 2,000 jobs; writes build/soak.json
	$(BIN)/python -m tests.soak $(ARGS)

mutants: $(INSTALLED) ## Take out one guard after the other; some test must fail each time
	$(BIN)/python -m tests.mutants $(ARGS)

bench: $(INSTALLED) ## Measure against bare LangGraph; writes build/bench.json
	$(BIN)/python -m tests.bench $(ARGS)

demo: $(INSTALLED) ## Watch an agent ask before it acts (ARGS=--auto decides by itself)
	@$(BIN)/python -m examples.support_desk.demo $(ARGS)

up: $(INSTALLED) ## Run Signoff on this machine until Ctrl-C
	@$(BIN)/signoff up $(ARGS)

wheel: $(INSTALLED) ## Build dist/*.tar.gz, and dist/*.whl from it
	@rm -rf dist
	$(BIN)/python -m build --no-isolation

COMPILE = env -u UV_FIND_LINKS $(UV) --no-config --quiet pip compile --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-annotate --custom-compile-command "make requirements" $(ARGS)

requirements: $(UV) ## Compile requirements/ anew (ARGS=--upgrade takes newer versions)
	$(COMPILE) pyproject.toml -o requirements/main.txt
	$(COMPILE) pyproject.toml --extra dev -c requirements/main.txt -o requirements/dev.txt
	$(COMPILE) --group build -c requirements/dev.txt -o requirements/build.txt

$(UV):
	@$(PYTHON) -m venv build/uv
	@build/uv/bin/pip --quiet --disable-pip-version-check install uv==$(UV_VERSION)

clean: ## Remove what was built and cached; .venv stays
	rm -rf build dist .typing signoff.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

.PHONY: help install typing check test unit contract integration acceptance packaging faults soak mutants bench demo up wheel \
	requirements clean
