# Two commands do everything: `make demo` and `make test`. Each sets up .venv when it is missing or stale.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# One worker waits for Spark most of its time, so one more than there are processors. Each may start a JVM of 1 GB.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(min(os.cpu_count() + 1, 8))')
# The tests of a group run on one worker, long groups first (tests/conftest.py).
WORK = -n $(WORKERS) --dist loadgroup --no-loadscope-reorder
EXTRAS := spark,aws,gcp,azure,vault,hsm,postgres,hive,glue,s3,adls
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
# Hundreds of processes of the tests import the package; without bytecode each of them compiles it anew.
unexport PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test deep pythons prepared quick quick-tests lint jar docs fuzz bench dist chaos clean help
help:            ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 10

demo: $(VENV)/ready jar   ## seal a file, read it back, tamper with it; the same with a table of millions of rows on Spark
	$(BIN)/python examples/demo.py
	$(BIN)/python examples/spark_demo.py

test: prepared lint   ## everything that CI runs
	$(BIN)/python -m pytest $(WORK)

deep: prepared pythons   ## what `make test` leaves out: more kills, catalogs, scenarios, examples (CONTRIBUTING.md lists it)
	$(BIN)/python -m pytest $(WORK) -m "deep or hypothesis" --hypothesis-profile=deep --timeout=1800

PYTHONS := 3.11 3.12 3.13
pythons: prepared   # the tests of `make quick` on every other Python that is here
	for version in $(PYTHONS); do \
		$(BIN)/python -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] == '$$version')" || continue; \
		python$$version --version > /dev/null 2>&1 || { echo "Python $$version is not here: its tests are left out"; continue; }; \
		$(MAKE) --no-print-directory PYTHON=python$$version VENV=build/venv-$$version quick-tests || exit 1; \
	done

prepared: $(VENV)/ready jar   # servers of object stores and an archive of Spark's classes, made once
	PYTHONPATH=tests $(BIN)/python -m kit.servers.store_servers
	PYTHONPATH=tests $(BIN)/python -m kit.programs.class_archive

quick: $(VENV)/ready jar   ## lint and the tests that take no time, in under 90 seconds
	$(MAKE) --no-print-directory -j 2 --output-sync=target lint quick-tests

quick-tests: $(VENV)/ready jar
	$(BIN)/python -m pytest $(WORK) -m "not slow" -q

lint: $(VENV)/ready   ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

$(VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "sealberg needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade pip
	$(BIN)/python -m pip install -q -e '.[$(EXTRAS)]' --group lint --group test --group docs
	touch $@

jar: $(VENV)/ready   ## the jar for Spark in build/, compiled when a Java source has changed
	$(BIN)/python jvm/jar.py

docs: $(VENV)/ready   ## the documentation as a site in build/site, with every warning as an error
	$(BIN)/mkdocs build --strict --quiet

bench: $(VENV)/ready jar   ## ratios against the bare cipher, plaintext and Java; also as build/bench.html
	mkdir -p build
	$(BIN)/python -m bench --json build/bench.json --page build/bench.html

FUZZ_SECONDS ?= 600
fuzz: $(VENV)/ready jar   ## let every fuzzer loose, ten minutes each (FUZZ_SECONDS=600)
	mkdir -p build
	for target in fuzz/*.py; do \
		$(BIN)/python $$target -max_total_time=$(FUZZ_SECONDS) -artifact_prefix=build/ || exit 1; \
	done

dist: $(VENV)/ready   ## wheel, sdist, Maven repository, SBOM and hashes of the last commit in dist/, the same bytes every time
	$(BIN)/python -m pip install -q --group dist
	PYTHON=$(BIN)/python .ci/dist

CHAOS_MINUTES ?=
chaos: $(VENV)/ready jar   ## kills, restarts, lost answers and wrong clocks for an hour, or CHAOS_MINUTES; figures in build/chaos.json
	mkdir -p build
	PYTHONPATH=tests $(BIN)/python -m chaos $(if $(CHAOS_MINUTES),--minutes $(CHAOS_MINUTES)) --json build/chaos.json $(CHAOS_ARGS)
	PYTHONPATH=tests $(BIN)/python -m chaos.removals

clean:           ## remove what was built
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
