# Two commands for a fresh machine with Python 3.11+, make and git:
#   make demo   train on the bundled Debian graph and look at the predictions
#   make test   lint, types and tests
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The stamp changes with what is to be installed, so a pull reinstalls and nothing else does.
STAMP := $(VENV)/.installed

.PHONY: demo test quick lint audit clean

demo: $(STAMP)
	$(BIN)/headtail demo

# Two processes of one thread each: on two cores faster than one process of two threads (135 s against 221 s for quick).
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal

test: lint
	$(PYTEST)

quick: lint
	$(PYTEST) -m "not slow"

lint: $(STAMP)
	$(BIN)/ruff check src tests scripts
	$(BIN)/ruff format --check src tests scripts
	$(BIN)/mypy

# In an environment of its own: what audits is none of what is audited. Without a network it says so and goes on.
audit: $(STAMP)
	-test -x .audit/bin/pip-audit || { $(PYTHON) -m venv .audit && .audit/bin/pip install --quiet --disable-pip-version-check pip-audit==2.10.1; }
	$(BIN)/python scripts/audit_dependencies.py --tool .audit/bin/pip-audit

# Nothing is compiled beforehand: of 12,000 modules a process imports 2,600, and Python compiles those as it comes to them.
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "headtail needs Python 3.11 or newer"'
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch==2.13.0
	$(PIP) -e '.[dev]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) .audit build dist .pytest_cache .mypy_cache .ruff_cache
