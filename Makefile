# Each target makes what it needs in .venv: only make and Python >= 3.11 have to be there.

PYTHON ?=
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
# It looks for the environment through PATH; --pythonpath is not heard by --verifytypes.
PYRIGHT := PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pyright
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Newest first. A name that exists may still fail to run (version managers leave such shims), so each is tried.
CANDIDATES = $(or $(PYTHON),python3.13 python3.12 python3.11 python3 python)
PROBE = import ensurepip, venv, sys; assert sys.version_info >= (3, 11)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo install format lint types test cover docs bench check build clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.demo ## Replay the support desk's recorded calls through a real engine
	@$(BIN)/python -m examples.support_desk $(ARGS)

install: $(VENV)/.dev $(VENV)/.docs ## Everything a contributor needs, in .venv

format: $(VENV)/.dev ## Rewrite the code in the project's form
	$(BIN)/ruff check --fix $(ARGS)
	$(BIN)/ruff format

lint: $(VENV)/.dev ## Rules, form and the arrows between rooms
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-logo

types: $(VENV)/.dev ## Both type checkers on the package; tests/typing holds what it infers
	$(BIN)/mypy
	$(PYRIGHT)
	$(PYRIGHT) --verifytypes capgate --ignoreexternal

test: lint types cover ## Everything that must hold: lint, types, tests, the docs' code, coverage

cover: $(VENV)/.dev ## The tests alone, with line and branch coverage (ARGS="-k name" narrows them)
	rm -f .coverage .coverage.*
	$(BIN)/coverage run -m pytest $(or $(ARGS),--numprocesses auto)
	$(BIN)/coverage combine --quiet
	$(if $(ARGS),,$(BIN)/coverage report && $(BIN)/coverage html --quiet)
	$(if $(ARGS),,@$(BIN)/coverage json --quiet -o - | $(BIN)/python .ci/coverage_floor 95)

docs: $(VENV)/.docs ## Build the documentation into site/, without a warning
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(VENV)/.dev ## Cost of a call against the floor; fails when a bound is broken
	@$(BIN)/python -m bench.run $(ARGS)

check: docs test ## What CI runs

build: $(VENV)/.dev ## The wheel and the source archive, into dist/
	$(BIN)/hatchling build --clean

clean: ## Remove what the other targets made
	rm -rf $(VENV) .demo build dist htmlcov site bench/results .coverage .hypothesis \
		.import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.made:
	@for python in $(CANDIDATES); do \
		if $$python -c "$(PROBE)" >/dev/null 2>&1; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then echo "No Python >= 3.11 with venv among: $(CANDIDATES)" >&2; exit 1; fi; \
	echo "Making $(VENV) with $$($$found --version)"; \
	$$found -m venv --clear $(VENV)
	@$(PIP) install --upgrade "pip>=25.1"  # the first that installs dependency groups
	@touch $@

$(VENV)/.demo $(VENV)/.dev $(VENV)/.docs: $(VENV)/.%: $(VENV)/.made pyproject.toml
	@echo "Installing capgate and its $* group into $(VENV)"
	@$(PIP) install --editable . --group $*
	@touch $@
