# make demo and make test need Python 3.11+ (3.10 works, with PySpark 3.5) and make; the rest they install in .venv.
PYTHON ?= python3

VENV := .venv
RUN := $(VENV)/bin/python
LOCAL := $(VENV)/.local.stamp
DEV := $(VENV)/.dev.stamp
BENCH := $(VENV)/.bench.stamp
# Numbers are made by the same plans on either kind of session; what differs is how a client builds and reads them.
ON_CONNECT := tests/test_job.py
ON_CONNECT_NIGHTLY := $(addprefix tests/test_,$(addprefix predictions_,types.py arguments.py labels.py rows.py keys.py \
    names.py results.py) common.py class_input.py two_classes.py class_measures.py class_counts.py class_reference.py \
    saved_states.py gates.py catalog_tables.py terminal.py files.py days.py)
# The half of the suite that is run beside the rest, so that two cores are busy.
OTHER_HALF := $(addprefix tests/test_,bucket_properties.py direct.py multiclass.py multiclass_reference.py properties.py \
    selection.py segments.py segments_by_hand.py small_groups.py saved_states.py gates.py catalog_tables.py \
    column_names.py)
# What takes longest, and most of the random cases, is for the night.
QUICK := -m "not slow"
PYTEST := $(RUN) -m pytest -p no:cacheprovider
PIP_INSTALL := $(RUN) -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := test
.PHONY: demo test nightly bench fmt clean

demo: $(LOCAL)
	$(RUN) examples/demo.py

test: $(DEV)
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	@mkdir -p build
	@echo "One half of the suite, and beside it the job on Spark Connect, then the other half (report follows):"
	@{ SPARKMETRICS_TEST_SESSION=connect $(PYTEST) $(QUICK) $(ON_CONNECT); connect=$$?; \
	    $(PYTEST) $(QUICK) $(OTHER_HALF); exit $$((connect + $$?)); } > build/beside.log 2>&1 & beside=$$!; \
	$(PYTEST) $(QUICK) $(addprefix --ignore=,$(OTHER_HALF)); here=$$?; \
	wait $$beside; beside=$$?; cat build/beside.log; \
	exit $$((here + beside))

# The whole suite, slow tests and all random cases; then where it runs: clusters, Spark Connect, other Pythons and
# releases. NIGHTLY_OPTIONS="-k connect" runs less of that.
nightly: $(DEV)
	$(PYTEST) nightly --basetemp build/nightly/tmp $(NIGHTLY_OPTIONS)
	SPARKMETRICS_TEST_SIZE=whole $(PYTEST)
	SPARKMETRICS_TEST_SESSION=connect $(PYTEST) $(ON_CONNECT_NIGHTLY)

# What it runs is PRESET in benchmarks/run.py; BENCH_OPTIONS="--data-set skewed --rows 1000000" runs less.
bench: $(BENCH)
	$(RUN) -m benchmarks.run $(BENCH_OPTIONS)

fmt: $(DEV)
	$(RUN) -m ruff format .
	$(RUN) -m ruff check --fix .

clean:
	rm -rf build dist results spark-warehouse metastore_db derby.log artifacts
	rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

# A stamp is older than pyproject.toml where there is something to install.
$(LOCAL): pyproject.toml | $(RUN)
	@echo "Installing sparkmetrics with Spark and Java into $(VENV) (1 GB, once) ..."
	@$(PIP_INSTALL) -e '.[local]'
	@touch $@

$(DEV): pyproject.toml | $(RUN)
	@echo "Installing sparkmetrics with Spark, Java and the development tools into $(VENV) (1.3 GB, once) ..."
	@$(PIP_INSTALL) -e '.[local,dev]'
	@touch $(LOCAL) $@

$(BENCH): pyproject.toml | $(RUN)
	@echo "Installing sparkmetrics with Spark, Java and the benchmark's peers into $(VENV) (1.3 GB, once) ..."
	@$(PIP_INSTALL) -e '.[local,bench]'
	@touch $(LOCAL) $@

$(RUN):
	@command -v $(PYTHON) >/dev/null || { \
	    echo "$(PYTHON) not found: install Python 3.11+, or name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	    echo "$$($(PYTHON) --version 2>&1) is too old: name a Python 3.10+: make PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	    echo "$(PYTHON) has no venv module: install it (Debian, Ubuntu: apt install python3-venv)" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
