# Everything a developer does, one verb each. `make` alone lists the verbs.
# Needs Python 3.11 or newer and nothing else; another interpreter: make PYTHON=python3.13 …

PYTHON ?= python3
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')
BIN := .venv/bin
STAMP := .venv/.installed
SERVERS := .servers/.installed
PACKAGES := db outrider outrider_sre registry runner server
CHECKS := check-style check-pyright check-mypy check-imports check-web

# The wheel brings its own Node and its own pyright: neither a system Node nor the version check on the network is wanted.
export PYRIGHT_PYTHON_GLOBAL_NODE := false
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DEFAULT_GOAL := help
.PHONY: help setup servers demo examples test coverage ready attempt-servers $(CHECKS) format requirements fuzz faults conformance docs pictures bundle bench lock clean-room clean

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z%-]+:.*## / { sub("%", "NAME", $$1); printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## Create .venv with the locked dependencies and Outrider itself

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  printf 'error: `%s` is missing or older than Python 3.11\n' '$(PYTHON)' >&2; \
	  printf 'hint: name another interpreter, for example `make PYTHON=python3.12 setup`\n' >&2; exit 1; }
	@test -x $(BIN)/pip || { echo 'creating .venv' >&2; $(PYTHON) -m venv .venv; }
	@$(BIN)/python tools/install.py $(PACKAGES)
	@touch $@

servers: $(SERVERS) ## Install the third-party MCP servers and clients that tests drive, a Prometheus, strace and Chromium

$(SERVERS): $(STAMP) tools/servers.sh tests/third_party/requirements.lock tests/third_party/package-lock.json
	@tools/servers.sh
	@touch $@

demo: $(STAMP) ## Watch an investigation unfold, offline and without a key
	@$(BIN)/outrider demo

examples: $(STAMP) ## Play the examples of examples/, offline and without a key
	@tools/play.sh

example-%: $(STAMP) ## Play one of them: assistant, coordinator, crew, nested or reporter
	@tools/play.sh $*

test: ready ## Lint, types, import contracts and every test
	$(BIN)/pytest -n $(WORKERS) --maxprocesses 8

coverage: $(STAMP) attempt-servers ## Every test, with branch coverage
	$(BIN)/pytest -n $(WORKERS) --maxprocesses 8 --cov --cov-report=term:skip-covered

# What reads the code, beside the installation of what tests drive: two at a time, each telling in one piece what it has to tell.
ready: $(STAMP)
	@$(MAKE) --no-print-directory --jobs=2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) attempt-servers $(CHECKS)

attempt-servers:
	-@$(MAKE) --no-print-directory --silent servers # where they cannot be had, their tests fail and say so; the others still run

check-pyright:
	$(BIN)/pyright

check-mypy:
	$(BIN)/mypy

check-style:
	$(BIN)/ruff check
	$(BIN)/ruff format --check

check-imports:
	$(BIN)/lint-imports --no-cache

check-web: attempt-servers
	tools/check-web.sh

format: $(STAMP) ## Format the code and repair what ruff can repair
	@$(BIN)/ruff check --fix-only
	@$(BIN)/ruff format

requirements: $(STAMP) ## Print how many requirements of each seed tests prove, and rewrite the `planned` flags of the manifest
	@$(BIN)/python -m tests.requirements.update

fuzz: $(STAMP) ## Send 100,000 malformed messages and arguments to the MCP face (OUTRIDER_SEED repeats a run)
	@OUTRIDER_FUZZ=100000 $(BIN)/pytest -q --timeout=0 tests/server/mcp_face/test_fuzz.py

faults: $(STAMP) servers ## Measure what is guaranteed, for hours (ONLY="tree cancel": some of it), and write docs/reference/guarantees.md
	@$(BIN)/python -m tests.faults.guarantees.run $(ONLY)

conformance: $(STAMP) servers ## Run the official MCP conformance suite, and write docs/reference/conformance.md
	@$(BIN)/python -m tests.conformance.page

docs: $(STAMP) ## Write what is made from code: docs/reference/cli.md and config.md, the README's clients, the picture of the tree
	@$(BIN)/python -m tests.docs.reference
	@$(BIN)/python -m tests.docs.clients
	@$(BIN)/python -m tests.docs.mcp_page
	@$(BIN)/python -m tests.docs.picture

pictures: $(STAMP) ## Take pictures of every page into build/pages, and those of the README and the tutorial into docs/pictures
	@$(BIN)/pytest -q tests/web/test_pictures.py
	@mkdir -p docs/pictures
	@for name in live execution compare; do cp build/pages/$$name-light.webp docs/pictures/$$name.webp; done
	@$(BIN)/python -m tests.web.tutorial

bundle: $(STAMP) ## Pack dist/outrider.mcpb, which desktop clients install by a double click
	@$(BIN)/python tools/bundle.py dist/outrider.mcpb
	@echo dist/outrider.mcpb

bench: $(STAMP) ## Measure what Outrider costs beside bare loops (scenarios a and b)
	@$(BIN)/python -m bench

lock: ## Resolve pyproject.toml into requirements.lock (UPGRADE=1: newest versions)
	@PYTHON='$(PYTHON)' UPGRADE='$(UPGRADE)' tools/lock.sh

clean-room: ## Run demo and test from a fresh clone in a bare Debian (needs root)
	@tools/clean-room.sh

clean: ## Remove caches and build output; .venv and .servers stay
	@rm -rf .demo dist build .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	@find . -name __pycache__ -type d -not -path './.venv/*' -not -path './.servers/*' -prune -exec rm -rf {} +
