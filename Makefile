# Every target does its own set-up: a virtual environment in .venv, installed from constraints.txt.
# `make` alone lists the targets.

PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11; do \
	$$name -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && echo $$name && break; done)
VENV := .venv
BIN := $(VENV)/bin
ONLY ?=
MINUTES ?=

# pip reads the lock from its environment, so that it also governs the isolated builds (pyspark is a source
# distribution); pip 25.3 and later want the second name for those.
PIP := PIP_CONSTRAINT=$(CURDIR)/constraints.txt PIP_BUILD_CONSTRAINT=$(CURDIR)/constraints.txt \
	PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip
# pyspark is 450 MB of jars: packed and unpacked again, they take half of the time of the installation.
INSTALL_SPARK := $(PIP) install --quiet --config-settings=--build-option=--compression=stored pyspark

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo cluster test classes check bench soak format lock java chromium screenshots clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.installed ## a generated trade stream and a dozen queries, live in the terminal and in a browser
	@sh tools/ensure_java.sh || echo 'The demonstration itself runs without Java.'
	@$(BIN)/panewise demo

cluster: $(VENV)/.installed java ## the demonstration on a Spark cluster: a master and two workers on loopback
	@$(BIN)/python tools/spark_cluster.py -- $(BIN)/panewise demo --master {master}

test: $(VENV)/.installed-dev java chromium classes ## all tests and the examples in the documentation
	$(BIN)/python -m pytest -n 4 --dist loadgroup --no-loadscope-reorder $(if $(ONLY),-k '$(ONLY)')

classes: $(VENV)/spark-classes.jsa ## what the Java processes of tests share

check: $(VENV)/.installed-dev ## ruff, mypy --strict and the layers of the packages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src
	$(BIN)/lint-imports

bench: $(VENV)/.installed-bench java ## the benchmarks; ONLY=name runs one
	$(BIN)/python -m bench $(ONLY)

soak: $(VENV)/.installed-bench java chromium ## the long versions of the tests; MINUTES=n plays random scripts that long
	$(if $(MINUTES),$(BIN)/python -m tests.soak --minutes $(MINUTES) $(ONLY),\
	$(BIN)/python -m pytest --soak $(if $(ONLY),-k '$(ONLY)'))

format: $(VENV)/.installed-dev ## rewrite the sources in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: $(VENV)/.made ## renew constraints.txt from pyproject.toml
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --universal --upgrade --all-extras --python-version 3.11 --no-emit-package panewise \
		--custom-compile-command 'make lock' --quiet --output-file constraints.txt pyproject.toml

screenshots: $(VENV)/.installed-dev chromium ## docs/dashboard-light.png and docs/dashboard-dark.png anew
	$(BIN)/python tools/screenshots.py

java: ## look for Java 17 or 21; on a Debian with root, install it
	@sh tools/ensure_java.sh

chromium: ## look for a Chromium; on a Debian with root, install it
	@sh tools/ensure_chromium.sh

clean: ## remove the virtual environment and everything made
	rm -rf $(VENV) build dist out .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests bench tools -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# Stamps: a second run does nothing until pyproject.toml or the lock changes.
$(VENV)/.made:
	@sh tools/ensure_python.sh '$(PYTHON)'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: pyproject.toml constraints.txt $(VENV)/.made
	$(INSTALL_SPARK)
	$(PIP) install --quiet --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt $(VENV)/.made
	$(INSTALL_SPARK)
	$(PIP) install --quiet --editable '.[dev]'
	@touch $@ $(VENV)/.installed

$(VENV)/spark-classes.jsa: $(VENV)/.installed-dev tools/share_spark_classes.py | java
	@$(BIN)/python tools/share_spark_classes.py $@ 2>$(VENV)/spark-classes.log || { cat $(VENV)/spark-classes.log; exit 1; }

$(VENV)/.installed-bench: pyproject.toml constraints.txt $(VENV)/.made
	$(INSTALL_SPARK)
	$(PIP) install --quiet --editable '.[dev,bench]'
	@touch $@ $(VENV)/.installed $(VENV)/.installed-dev
