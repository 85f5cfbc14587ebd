# Every target does its own set-up: a virtual environment in .venv, installed from the files in locks.
# `make` alone lists the targets.

PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11; do \
	$$name -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && echo $$name && break; done)
VENV := .venv
BIN := $(VENV)/bin
ONLY ?=
MINUTES ?=

# A lock names the version of every package and the hashes of its files: nothing else is installed. What builds pyspark,
# a source distribution, and panewise is locked too, and stands in the environment: an isolated build would fetch it
# without hashes. pyspark is 450 MB of jars, and stored_wheels.cfg spares packing and unpacking them again.
# uv takes a fifth of pip's time; where it finds no registry, pip may know of one.
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet --no-build-isolation
UV := $(BIN)/uv pip install --quiet --no-build-isolation --compile-bytecode --python $(BIN)/python
WHEELS := DIST_EXTRA_CONFIG=$(CURDIR)/tools/stored_wheels.cfg
COMPILE := $(BIN)/uv pip compile --universal --python-version 3.11 --no-emit-package panewise \
	--custom-compile-command 'make lock' --quiet
LOCK := $(COMPILE) --generate-hashes --constraints constraints.txt

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo cluster test classes check bench soak format lock hashes java chromium screenshots clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.installed ## a generated trade stream and a dozen queries, live in the terminal and in a browser
	@sh tools/ensure_java.sh || echo 'The demonstration itself runs without Java.'
	@$(BIN)/panewise demo

cluster: $(VENV)/.installed java ## the demonstration on a Spark cluster: a master and two workers on loopback
	@$(BIN)/python tools/spark_cluster.py -- $(BIN)/panewise demo --master {master}

test: $(VENV)/.installed-dev java chromium classes ## all tests and the examples in the documentation
	$(BIN)/python -m pytest -n 6 --dist loadgroup --no-loadscope-reorder $(if $(ONLY),-k '$(ONLY)')

classes: $(VENV)/spark-classes.jsa ## what the Java and Python processes of Spark in tests share

check: $(VENV)/.installed-dev ## ruff, mypy --strict, the layers of the packages, and tools/house.py: sizes, cycles, names
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src papers
	$(BIN)/lint-imports
	$(BIN)/python tools/house.py

bench: $(VENV)/.installed-bench java ## the benchmarks; ONLY=name runs one
	$(BIN)/python -m bench $(ONLY)

soak: $(VENV)/.installed-bench java chromium ## the long versions of the tests; MINUTES=n plays random scripts that long
	$(if $(MINUTES),$(BIN)/python -m tests.soak --minutes $(MINUTES) $(ONLY),\
	$(BIN)/python -m pytest --soak $(if $(ONLY),-k '$(ONLY)'))

format: $(VENV)/.installed-dev ## rewrite the sources in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: $(VENV)/.installed ## renew constraints.txt and the locks from pyproject.toml
	$(COMPILE) --upgrade --all-extras --group build --output-file constraints.txt pyproject.toml
	$(MAKE) hashes

hashes: $(VENV)/.installed ## the locks from pyproject.toml and constraints.txt, with no newer versions
	$(LOCK) --group build --output-file locks/build.txt
	$(LOCK) --output-file locks/run.txt pyproject.toml
	$(LOCK) --extra dev --output-file locks/dev.txt pyproject.toml
	$(LOCK) --extra dev --extra bench --output-file locks/bench.txt pyproject.toml

screenshots: $(VENV)/.installed-dev chromium ## docs/dashboard-light.png and docs/dashboard-dark.png anew
	$(BIN)/python tools/screenshots.py

java: ## look for Java 17 or 21; on a Debian with root, install it
	@sh tools/ensure_java.sh

chromium: ## look for a Chromium; on a Debian with root, install it
	@sh tools/ensure_chromium.sh

clean: ## remove the virtual environment and everything made
	rm -rf $(VENV) build dist out .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .grimp_cache .hypothesis
	find src papers tests bench tools -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# Stamps: a second run does nothing until pyproject.toml or the lock changes.
$(VENV)/.made:
	@sh tools/ensure_python.sh '$(PYTHON)'
	$(PYTHON) -m venv $(VENV)
	@touch $@

define install
$(PIP) --require-hashes -r locks/build.txt
$(WHEELS) $(UV) --require-hashes -r locks/$(1).txt || $(WHEELS) $(PIP) --require-hashes -r locks/$(1).txt
$(PIP) --no-deps --editable .
endef

$(VENV)/.installed: pyproject.toml locks/build.txt locks/run.txt $(VENV)/.made
	$(call install,run)
	@touch $@

$(VENV)/.installed-dev: pyproject.toml locks/build.txt locks/dev.txt $(VENV)/.made
	$(call install,dev)
	@touch $@ $(VENV)/.installed

$(VENV)/.pyspark-compiled: $(VENV)/.installed-dev tools/compile_pyspark.py
	$(BIN)/python tools/compile_pyspark.py
	@touch $@

$(VENV)/spark-classes.jsa: $(VENV)/.pyspark-compiled tools/share_spark_classes.py | java
	@$(BIN)/python tools/share_spark_classes.py $@ 2>$(VENV)/spark-classes.log || { cat $(VENV)/spark-classes.log; exit 1; }

$(VENV)/.installed-bench: pyproject.toml locks/build.txt locks/bench.txt $(VENV)/.made
	$(call install,bench)
	@touch $@ $(VENV)/.installed $(VENV)/.installed-dev
