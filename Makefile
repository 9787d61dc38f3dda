# hudhud needs Python 3.11+ and a package registry; everything else is made here.
#   make up     set up, start everything embedded, play the demo, stay up
#   make test   the tests, on an embedded PostgreSQL 18

.DEFAULT_GOAL := help
SHELL := /bin/sh

# The first Python that is new enough and can make a virtual environment; or make PYTHON=…
ifndef PYTHON
PYTHON := $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
	>/dev/null 2>&1 && { echo "$$python"; break; }; done)
endif
BIN := .venv/bin

# Long suites have directories of their own, so that no test needs to be skipped.
LONG := tests/long tests/browser
TEST := $(BIN)/pytest -n 2 $(LONG:%=--ignore=%)
# What talks to the database, and so must hold on every server of the matrix.
MATRIX := $(wildcard tests/db tests/plans tests/model tests/conformance tests/worker tests/api)
SERVERS := postgres15 embedded16 pgbouncer

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r name what; do \
	printf '%-22s %s\n' "$$name" "$$what"; done

.PHONY: venv
venv: ## the virtual environment .venv, rebuilt when the lock has changed
	@if [ -z "$(PYTHON)" ]; then \
	echo "hudhud needs Python 3.11 or newer with venv and ensurepip (make PYTHON=/path/to/python3)"; \
	exit 1; fi
	@"$(PYTHON)" tools/set_up.py

.PHONY: up demo
up: venv ## start everything embedded, play the demo, stay up
	@$(BIN)/hudhud up
demo: venv ## the demos once; 90 seconds, exit 0 or 1
	@$(BIN)/hudhud demo

.PHONY: test test-matrix setup-matrix
test: venv ## the tests, on an embedded PostgreSQL 18
	@$(TEST) tests

setup-matrix: ## system packages for the matrix: PgBouncer, PostgreSQL 15, SPIN (apt)
	@sh tools/setup_matrix.sh

test-matrix: venv ## the database's tests on PostgreSQL 15, 16 and through PgBouncer
	@for server in $(SERVERS); do echo "== $$server"; \
	HUDHUD_TEST_SERVER=$$server $(TEST) $(MATRIX) || exit 1; done

.PHONY: check format lock
check: venv ## lint, format, types, layers, budgets
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python tools/budgets.py

format: venv ## mend what the tools can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: venv ## requirements/dev.txt anew from pyproject.toml
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --extra dev \
	--generate-hashes --no-emit-index-url --custom-compile-command 'make lock' \
	--output-file requirements/dev.txt pyproject.toml

.PHONY: chaos-short chaos chaos-teeth bench-short bench soak
chaos-short: venv ## 300 kills; nothing lost, nothing doubled
	@$(BIN)/hudhud chaos --kills 300 --seed 1 --json
chaos: venv ## 200,000 events through kills and a copy, then 5,000 kills
	@$(BIN)/python -m bench.chaos.outbox --events 200000 --seed 1 --json
	@$(BIN)/hudhud chaos --kills 5000 --seed 1 --json
chaos-teeth: venv ## faults that are planted, each of which must be noticed
	@$(BIN)/python -m bench.chaos.teeth --json
bench-short: venv ## the benchmark's figures at a size of minutes
	@$(BIN)/hudhud bench --size short --json
bench: venv ## the benchmark as docs/performance.md reports it
	@$(BIN)/hudhud bench --size full --json
soak: venv ## hours of load; memory, bloat and rate must stay where they are
	@$(BIN)/hudhud bench --size soak --json
