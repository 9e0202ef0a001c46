# The two commands: `make demo` and `make test`. Both set everything up first.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: setup demo test bench torture bench-large clean

setup: $(STAMP)

# torch alone first: the constraints pin it, and no other package may choose its build.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: setup
	$(BIN)/python tests/data/demo.py

test: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest

bench: setup
	$(BIN)/python benchmarks/search.py

clean:
	rm -rf .venv .demo .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
