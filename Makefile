# Everything runs in .venv, set up on first use and again only when the pins change.
# Another Python: make test PYTHON=python3.12

PYTHON = python3
BIN = .venv/bin
ENV = OMP_NUM_THREADS=1
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e

.PHONY: help demo test test-gpu docs format lint types house

help:
	@echo "make demo      show what truesort does"
	@echo "make test      check everything: format, lint, types, imports, docs, tests, examples"
	@echo "make test-gpu  compare the GPU backend with the reference"
	@echo "make docs      build the site into site/"
	@echo "make format    let ruff write the code its way"

demo: .venv/ready-to-run
	@$(BIN)/truesort demo

test: lint types house docs
	@echo "== tests and examples (pytest)"
	@$(ENV) $(BIN)/python -m pytest -n auto --maxprocesses 8 --cov --cov-fail-under 95 --durations 5

test-gpu: .venv/ready-to-test
	@echo "== tests that need a GPU (pytest -m gpu)"
	@$(BIN)/python -m pytest -m gpu

lint: .venv/ready-to-test
	@echo "== formatting (ruff format --check)"
	@$(BIN)/ruff format --check .
	@echo "== lint (ruff check)"
	@$(BIN)/ruff check .

types: .venv/ready-to-test
	@echo "== types (mypy --strict)"
	@$(BIN)/mypy

house: .venv/ready-to-test
	@echo "== who may import whom (lint-imports)"
	@$(BIN)/lint-imports --no-logo

docs: .venv/ready-to-test
	@echo "== docs (mkdocs build --strict)"
	@NO_MKDOCS_2_WARNING=1 $(ENV) $(BIN)/mkdocs build --strict --quiet

format: .venv/ready-to-test
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

.venv/made:
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit(f"truesort needs Python 3.11 or newer; {sys.executable} is {v[0]}.{v[1]}: make ... PYTHON=python3.12")'
	@echo "== setting up .venv (once)"
	@$(PYTHON) -m venv .venv
	@touch $@

.venv/ready-to-run: .venv/made pyproject.toml constraints.txt
	@echo "== installing truesort"
	@$(PIP) .
	@touch $@

.venv/ready-to-test: .venv/made pyproject.toml constraints.txt
	@echo "== installing truesort and what its tests need"
	@$(PIP) '.[dev]'
	@touch $@ .venv/ready-to-run
