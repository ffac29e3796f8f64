# Everything a developer or a user needs; `make help` lists it.
PYTHON ?= python3
PORT ?= $(or $(CTP_PORT),8000)
BIN := .venv/bin
# Folders with tests that start no processes: the others need not even be read.
FAST := tests/core tests/golden tests/repository tests/service tests/worker
PIP := $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: help setup setup-dev run test test-fast test-faults test-hostile test-soak test-install test-long screenshots lint format system-deps clean
.DEFAULT_GOAL := help

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: .venv/.installed ## Prepare .venv with the program in .venv/bin/ctp (TORCH_INDEX=<url> takes torch from there)

setup-dev: .venv/.installed-dev ## The same, with what the tests need

run: setup ## Start the whole service on http://127.0.0.1:8000 (PORT and CTP_DATA_DIR move it)
	@exec $(BIN)/ctp up --port $(PORT)

test: setup-dev ## Run all tests, file by file in two processes (a quarter of an hour on two cores)
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder --durations 40

test-fast: setup-dev ## Run the tests that need no started processes (under a minute)
	$(BIN)/python -m pytest $(FAST) -m "not slow and not long" --numprocesses 2 --dist loadfile

test-faults: setup-dev ## Kill, stop, fill and flush everything, twenty times over (half an hour)
	$(BIN)/python -m pytest tests/faults -m "slow or long"

test-hostile: setup-dev ## Send ten thousand hostile calls (HOSTILE_CALLS and HOSTILE_SEED change that; twenty minutes)
	$(BIN)/python -m pytest tests/hostile -m "slow or long" -s

test-soak: setup-dev ## Mixed traffic with kills; then nothing may have grown (SOAK_MINUTES, 30 unless given)
	$(BIN)/python -m pytest tests/soak -m long -s

test-install: setup-dev ## Install and start a fresh copy, then paste the README's commands (five minutes)
	$(BIN)/python -m pytest tests/e2e/test_fresh_copy.py -m long

test-long: test-faults test-hostile test-soak test-install ## Run these four one after the other (an hour and a half)

screenshots: setup-dev ## Take the pictures of the README again, with a browser
	SCREENSHOTS=docs/screenshots $(BIN)/python -m pytest tests/e2e/test_page_views.py tests/e2e/test_page_story.py -k 'pictures or first_visit or watched'

lint: setup-dev ## Check style, types and the dependency rule
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --config pyproject.toml --no-cache

format: setup-dev ## Let ruff put the code in shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

system-deps: ## Install what only a package manager has: a browser, strace (Debian, needs root)
	apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium strace >/dev/null

clean: ## Remove .venv and all caches (not your data)
	rm -rf .venv build *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("make: Python 3.11 or newer is needed, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "make: this Python has no venv: install it (Debian, Ubuntu: apt install python3-venv)"; exit 1; }
	@echo "Creating .venv"
	@$(PYTHON) -m venv .venv

.venv/.installed: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing packages (the first time takes a few minutes)"
	@if [ -n "$(TORCH_INDEX)" ]; then $(PIP) --index-url "$(TORCH_INDEX)" torch==2.13.0; fi
	@$(PIP) --editable '.[all]'
	@touch $@

.venv/.installed-dev: .venv/.installed
	@echo "Installing the packages that the tests need"
	@$(PIP) --editable '.[dev]'
	@# Not among the extras: it asks for an older typer than ours, which only its own command needs.
	@$(PIP) --no-deps openapi-python-client
	@touch $@
