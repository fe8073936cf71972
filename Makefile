# Every word of the project. `make` alone lists them.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready-dev
READY_DEMO := $(VENV)/.ready-demo
READY_STACK := $(VENV)/.ready-stack
# A file's tests stay in one process: they share whole runs. Files with whole runs begin. Three processes for two cores:
# two leave a fifth of the processor idle.
PYTEST := $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder
export WASP_HOME ?= $(CURDIR)/.wasp
# Every command and every test that starts one would compile the whole project anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo up down status test ci test-data test-nightly mutants findings check test-all test-e2e docs bench lock format clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(READY_DEMO): pyproject.toml requirements.lock infra/models.txt infra/install.py
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python infra/install.py demo
	touch $@

$(READY): $(READY_DEMO)
	$(BIN)/python infra/install.py dev
	touch $@

$(READY_STACK): $(READY_DEMO)
	$(BIN)/python infra/install.py stack
	touch $@

setup: $(READY) ## create .venv with everything that development needs

demo: $(READY_DEMO) ## set up, run WASP on the bundled data, end with a report
	$(BIN)/wasp run wasp --config deployments/configs/demo.yaml

up: $(READY_STACK) ## start Prefect server, worker and MLflow in the background (PREFECT_PORT=4200 MLFLOW_PORT=5000)
	@$(BIN)/python -m deployments.stack up

down: ## end everything that make up started; all data stay
	@$(BIN)/python -m deployments.stack down

status: ## show which services run
	@$(BIN)/python -m deployments.stack status

# One file runs in one process, with all of its tests but those that need an accelerator.
test: $(READY) ## the fast suite: offline, real parts, the main flow from start to end; FILE=tests/... for one file
	$(if $(FILE),$(BIN)/python -m pytest -m "not gpu and not live" $(FILE),$(PYTEST))

ci: check ## what CI runs: checks, then the fast suite and all further tests but the nightly ones
	$(PYTEST) -m "not slow and not gpu and not live"

test-data: $(READY) ## the tests of real data: those of ../shared/data or WASP_DATA; without the folder they are skipped
	$(PYTEST) -m "real_data and not gpu and not live"

test-nightly: $(READY) ## the nightly tests alone: tests/support/suites.py says when
	$(PYTEST) -m "slow and not gpu and not live"

mutants: $(READY) ## mutations of the privacy code, each of which its tests must catch (minutes, two processes)
	$(BIN)/python -m tests.mutants

findings: ## behaviour of pinned packages that nobody guesses, outside the project: findings/README.md (minutes, downloads)
	@failed=0; for script in findings/*.sh; do \
	  said=$$(bash $$script 2>/dev/null); \
	  case $$? in \
	    0) state=same ;; \
	    2) state="not run"; failed=1 ;; \
	    *) state=CHANGED; failed=1 ;; \
	  esac; \
	  printf '%-8s %s: %s\n' "$$state" $$script "$$said"; \
	done; exit $$failed

test-all: $(READY) mutants ## everything but GPUs and vendors: nightly, chaos and statistical tests, mutations as well
	$(PYTEST) -m "not gpu and not live"

test-e2e: $(READY) ## the pages of Prefect and MLflow in Chromium; screenshots in tests/output (needs chromium, chromium-driver)
	$(BIN)/python -m pytest -m browser tests/e2e/browser

check: $(READY) ## format, lint, types, layers, prose, documentation site
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python infra/prose.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

docs: $(READY) ## build the documentation site into build/site; every broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "build/site/index.html; look at it with: $(BIN)/mkdocs serve"

bench: $(READY) ## benchmarks: ratios against a peer or a floor of the same run
	$(BIN)/python -m tests.benchmarks

lock: $(READY) ## update requirements.lock from pyproject.toml; keep compatible versions
	$(BIN)/python infra/install.py --lock

format: $(READY) ## format and fix the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove the virtual environment and caches; the state folder stays
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build *.egg-info
