# The two commands: `make demo` and `make test`. Both set everything up first.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
ESPRESSO := examples/espresso

.PHONY: setup demo test test-portable docs bench bench-large clean

setup: $(STAMP)

# torch alone first: the constraints pin it, and no other package may choose its build.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,fast,finetune]'
	touch $@

demo: setup
	$(BIN)/knnmt demo --out .demo

test: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n auto --maxprocesses 8 --dist worksteal

# The tests as on other processors; arguments for pytest: make test-portable ONLY='tests/decoding -x'
test-portable: setup
	$(BIN)/python tests/portable.py $(ONLY)

# The web pages, in site/; a broken link fails. Not --quiet, with which mkdocs would let it pass.
docs: setup
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,fast,docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Speed, on what anyone has: the bundled model and text, and random weights in the shape of opus-mt.
bench: setup
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,fast,bench]'
	$(BIN)/python benchmarks/search.py
	$(BIN)/python benchmarks/fit.py
	$(BIN)/python benchmarks/build.py
	test -e .bench/espresso/manifest.json || $(BIN)/knnmt build .bench/espresso $(ESPRESSO)/memory.de $(ESPRESSO)/memory.en --model de-en-small
	for method in vanilla adaptive robust; do $(BIN)/knnmt fit .bench/espresso $(ESPRESSO)/dev.de $(ESPRESSO)/dev.en --method $$method || exit 1; done
	$(BIN)/python benchmarks/decode.py --model models/de-en-small --store .bench/espresso --source $(ESPRESSO)/test.de
	$(BIN)/python benchmarks/synthetic.py .bench/100k --entries 100000
	$(BIN)/python benchmarks/decode.py --model .bench/opus-size-random --store .bench/100k --source $(ESPRESSO)/test.de
	$(BIN)/python benchmarks/synthetic.py .bench/1m --entries 1000000
	$(BIN)/python benchmarks/decode.py --model .bench/opus-size-random --store .bench/1m --source $(ESPRESSO)/test.de

# Ten million entries: some 13 GB in .bench, and about an hour to index them.
bench-large: setup
	$(BIN)/python benchmarks/synthetic.py .bench/1m --entries 1000000
	$(BIN)/python benchmarks/synthetic.py .bench/10m --entries 10000000
	for size in 1m 10m 1m 10m; do $(BIN)/python benchmarks/decode.py --model .bench/opus-size-random --store .bench/$$size --source $(ESPRESSO)/test.de --systems base,robust@mapped,robust@memory || exit 1; done

clean:
	rm -rf .venv .demo .bench site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
