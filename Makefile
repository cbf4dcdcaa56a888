# `make help` lists what there is. Extra arguments go through ARGS: make test ARGS="-k l05"
ARGS ?=
N ?= 10000
PYTHON ?= python3
PY := .venv/bin/python
# Worlds that `make simulate` runs.
SEEDS ?= 100

.DEFAULT_GOAL := help
.PHONY: help demo test lint coverage bench simulate steps-soak proof browser display clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv/.host browser ## See a lease survive its worker and its browser
	.venv/bin/lessor demo $(ARGS)

test: .venv/.dev browser display ## Run the tests
	$(PY) -m pytest $(ARGS)

lint: .venv/.dev ## Check style, types and import directions
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	$(PY) -m pyright --pythonpath $(PY) --warnings
	.venv/bin/lint-imports

coverage: .venv/.dev browser display ## Run the tests and show what they do not reach
	$(PY) -m coverage erase
	$(PY) -m coverage run -m pytest $(ARGS)
	$(PY) -m coverage combine --quiet
	$(PY) -m coverage report

bench: .venv/.dev browser ## Measure
	$(PY) -m benchmarks $(ARGS)

steps-soak: .venv/.dev ## N actions, one in ten of them killed: make steps-soak N=10000 (ARGS=--chromium: real browsers)
	$(PY) -m tests.soak --actions $(N) $(ARGS)

simulate: .venv/.dev ## Simulate SEEDS worlds, check their histories, and see that planted bugs are found
	$(PY) -m tests.simulation $(SEEDS) --mutants $(ARGS)

proof: lint browser display ## Run everything, however long it takes
	$(PY) -m pytest -m "proof or not proof" $(ARGS)

clean: ## Remove .venv and everything that was generated
	rm -rf .venv build dist *.egg-info .coverage .coverage.* .*_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

browser: .venv/.host
	@.ci/browser.sh

display:
	@.ci/display.sh

# The stamps: an installation is repeated when what it was made from has changed.
.venv/.host: pyproject.toml constraints.txt .ci/venv.sh
	@PYTHON="$(PYTHON)" .ci/venv.sh host
	@touch $@

.venv/.dev: .venv/.host
	@PYTHON="$(PYTHON)" .ci/venv.sh host,dev
	@touch $@
