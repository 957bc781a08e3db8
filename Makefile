# Two commands do everything: `make demo` and `make test`. Each sets up .venv when it is missing or stale.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
EXTRAS := spark,aws,gcp,azure,vault,hsm,postgres,hive,glue
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test quick lint fuzz bench chaos clean help
help:            ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 10

demo: $(VENV)/ready   ## seal a file, read it back, tamper with it; the same with a table of millions of rows on Spark
	$(BIN)/python examples/demo.py
	$(BIN)/python examples/spark_demo.py

test: $(VENV)/ready lint   ## everything that CI runs
	$(BIN)/python -m pytest -n 2 --dist worksteal

quick: $(VENV)/ready   ## lint and the tests that take no time, in under two minutes
	$(MAKE) lint
	$(BIN)/python -m pytest -n 2 -m "not slow" -q

lint: $(VENV)/ready   ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

$(VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "sealberg needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade pip
	$(BIN)/python -m pip install -q -e '.[$(EXTRAS)]' --group lint --group test
	touch $@

bench: $(VENV)/ready   ## ratios against the bare cipher, plaintext and Java; also as build/bench.html
	mkdir -p build
	$(BIN)/python -m bench --json build/bench.json --page build/bench.html

fuzz: $(VENV)/ready   ## let the fuzzers loose for ten minutes
	mkdir -p build
	$(BIN)/python fuzz/key_metadata.py -max_total_time=300 -artifact_prefix=build/
	$(BIN)/python fuzz/ags1.py -max_total_time=300 -artifact_prefix=build/

CHAOS_MINUTES ?= 60
chaos: $(VENV)/ready   ## kills, restarts, lost answers and wrong clocks for CHAOS_MINUTES; figures in build/chaos.json
	mkdir -p build
	PYTHONPATH=tests $(BIN)/python -m chaos --minutes $(CHAOS_MINUTES) --json build/chaos.json $(CHAOS_ARGS)

clean:           ## remove what was built
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
