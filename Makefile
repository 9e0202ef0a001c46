# The two commands: `make demo` and `make test`. Both set everything up first.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
ESPRESSO := tests/data/espresso

.PHONY: setup demo test bench clean

setup: $(STAMP)

# torch alone first: the constraints pin it, and no other package may choose its build.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,fast]'
	touch $@

demo: setup
	rm -rf .demo
	$(BIN)/knnmt build .demo/espresso $(ESPRESSO)/memory.de $(ESPRESSO)/memory.en --model de-en-small
	$(BIN)/knnmt fit .demo/espresso $(ESPRESSO)/dev.de $(ESPRESSO)/dev.en --method vanilla
	$(BIN)/knnmt fit .demo/espresso $(ESPRESSO)/dev.de $(ESPRESSO)/dev.en --method adaptive
	$(BIN)/knnmt fit .demo/espresso $(ESPRESSO)/dev.de $(ESPRESSO)/dev.en --method robust
	$(BIN)/knnmt info .demo/espresso
	$(BIN)/knnmt evaluate .demo/espresso $(ESPRESSO)/test.de $(ESPRESSO)/test.en --methods base,vanilla,adaptive,robust
	head -n 5 $(ESPRESSO)/test.de
	head -n 5 $(ESPRESSO)/test.de | $(BIN)/knnmt translate .demo/espresso --method base
	head -n 5 $(ESPRESSO)/test.de | $(BIN)/knnmt translate .demo/espresso

test: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest

bench: setup
	$(BIN)/python benchmarks/search.py
	$(BIN)/python benchmarks/fit.py

clean:
	rm -rf .venv .demo .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
