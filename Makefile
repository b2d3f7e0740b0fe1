# `make demo` and `make test` set everything up by themselves: all they need is Python 3.11 or newer.

BIN := .venv/bin
READY := .venv/.ready
PYTHON ?= $(shell for python in python3.11 python3 python3.12 python3.13; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)

.PHONY: demo test lint format slow fuzz clean

demo: $(READY)
	$(BIN)/dgpnet demo

test: lint
	$(BIN)/pytest -q -n 2 --dist worksteal -m "not slow"

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

slow: $(READY)
	$(BIN)/pytest -q -m slow

# More than 10,000 made-up and broken annotation files, others each time; a few minutes.
fuzz: $(READY)
	DGPNET_FUZZ=800 $(BIN)/pytest -q -n 2 --dist worksteal -m fuzz

clean:
	rm -rf .venv

# PyTorch first and alone, so that the build which the machine's package index offers for its version is taken and
# nothing later replaces it. A CPU build is enough.
$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[train,hf,dev]"
	touch $@
