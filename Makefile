# Every target builds .venv by itself; all that is needed is Python 3.11 to 3.13.
#   make reproduce [TIER=smoke|cpu|paper] [ARGS="--table mnist_noise --seeds 5 --minutes 60"]
PYTHON ?= python3
TIER ?= smoke
BIN := .venv/bin

.PHONY: reproduce report test test-all lab bench notebooks

reproduce: .venv/installed
	$(BIN)/python -m lib.reproduce --tier $(TIER) $(ARGS)

# README's blocks, results/REPORT.md, and out/report.html: everything on one page that opens without a network.
report: .venv/installed
	$(BIN)/python -m lib.book

# Files are shared out among processes of one thread each.
test: .venv/installed
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist loadfile

# The tests that drive a browser want Chromium beside this, and are skipped without it.
test-all: .venv/installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[browser,cluster]'
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/python -m pytest -m ""

lab: .venv/installed
	$(BIN)/jupyter lab notebooks $(ARGS)

bench: .venv/installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python -m lib.bench

# Executes the committed notebooks again, after their results or their text have changed.
notebooks: .venv/installed
	$(BIN)/python -m lib.notebook

.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if (3, 11) <= v < (3, 14) else \
	    f"expected Python 3.11 to 3.13; got {v.major}.{v.minor}; try make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	@touch $@
