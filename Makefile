# Needs Python 3.11 or newer, git and make. `make demo` and `make test` set up what they need.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
# More arguments for the command behind a target: make test ARGS="tests/unit -k cover".
ARGS ?=
# How many processes run tests: more than cores, because many tests wait for programs they start.
JOBS ?= 5
# Which seeds of the whole-system simulation `make soak` runs: 0-499, or 17, or 3,8,100-120.
SEEDS ?= 0-499
# How many mutants `make mutate` draws, and from which module only: ONLY=core/admission/pack.py.
MUTANTS ?= 400
ONLY ?=

# Where `make serve` keeps the token of its first start.
TOKEN := quorate.db.token
# What root must say to `make serve` for work to run as root.
AS_ROOT = $(if $(findstring run-as,$(ARGS)),,$(if $(filter 0,$(shell id -u)),--executor-allow-root))

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests start hundreds of programs, and half of what a start takes is compiling what is not kept.
unexport PYTHONDONTWRITEBYTECODE

RUNTIME := $(VENV)/.installed-runtime
DEV := $(VENV)/.installed-dev
# Where Chromium is for the tests of the dashboard, or why there is none.
BROWSER := .build/chromium
# Where kubectl is for the tests of Kubernetes, or why there is none.
KUBECTL := .build/kubectl

.DEFAULT_GOAL := help
.PHONY: help demo demo-kubernetes demo-quorum serve test quick check bench soak mutate cover format lock web docs clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile

demo: $(RUNTIME) ## install, then tell the story of a fleet in five scenes, with real processes
	$(BIN)/quorate demo $(ARGS)

# Without etcd and kube-apiserver it says so, and ends with code 3.
demo-kubernetes: $(DEV) ## runs as pods of a real control plane, where KUBEBUILDER_ASSETS has one
	$(BIN)/python -m tools.demo_kubernetes

demo-quorum: $(DEV) ## three members of etcd and three services; the leader is killed, and replaced
	$(BIN)/python -m tools.demo_quorum

serve: $(RUNTIME) ## install, then serve quorate.db, made if there is none, and run its work here
	@echo "In another terminal, in this folder, type:"
	@echo "  . $(BIN)/activate && quorate context set here --server http://127.0.0.1:8414 --token-file $(TOKEN)"
	@echo "  quorate apply -f examples/fleet.yaml -f examples/teams.yaml"
	@echo "  quorate submit --gpus 4 --team rai --flavor H100 -- python -c 'print(\"it runs\")'"
	@[ -z "$(AS_ROOT)" ] || echo "WARNING: you are root, and so is all work of this service:" \
		"$(AS_ROOT). To serve others, give each team a system user instead: docs/jobs.md"
	$(BIN)/quorate serve --executor local --token-file $(TOKEN) $(AS_ROOT) $(ARGS)

# File by file: many files have a service, a browser or a control plane that their tests share.
# tests/conftest.py says which files begin first.
test: $(DEV) $(BROWSER) $(KUBECTL) ## every test, repeatable
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

quick: $(DEV) ## the tests worth running after each change, under a minute
	HYPOTHESIS_PROFILE=quick $(BIN)/python -m pytest -n auto --dist worksteal \
		-m "not slow and not heavy" $(ARGS)

check: $(DEV) ## formatting, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(DEV) ## measure, print beside the targets, fail below one
	$(BIN)/python -m benchmarks $(ARGS)

soak: $(DEV) $(BROWSER) $(KUBECTL) ## long and random: many more examples, SEEDS=0-499 of the simulation
	HYPOTHESIS_PROFILE=soak QUORATE_SEEDS=$(SEEDS) $(BIN)/python -m pytest -n $(JOBS) --dist worksteal \
		-o faulthandler_timeout=0 $(ARGS)

mutate: $(DEV) ## change core and ledger in small ways, and fail when the tests notice too few
	$(BIN)/python -m tools.mutation --mutants $(MUTANTS) --jobs $(JOBS) \
		$(if $(ONLY),--only $(ONLY)) $(ARGS)

cover: $(DEV) ## branch coverage of what decides
	HYPOTHESIS_PROFILE=quick $(BIN)/coverage run -m pytest -m "not slow" $(ARGS)
	$(BIN)/coverage report

format: $(DEV) ## rewrite the code in the agreed format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

COMPILE := $(BIN)/uv pip compile --quiet --generate-hashes --universal --python-version 3.11 \
	--no-header --no-emit-index-url --no-emit-find-links pyproject.toml requirements/build.in

lock: $(BIN)/uv ## choose versions anew from pyproject.toml (ARGS=--upgrade takes the newest)
	$(COMPILE) --extra service --extra rounds --output-file requirements/runtime.txt $(ARGS)
	$(COMPILE) --extra service --extra rounds --extra testing --group dev --constraint requirements/runtime.txt \
		--output-file requirements/dev.txt $(ARGS)

web: ## build the dashboard from web/ into the package; needs Node 20 and npm
	cd web && npm ci --ignore-scripts --no-audit --no-fund && node build.mjs

docs: $(DEV) ## build these pages as a site with a search, to be read without a network
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -c docs -b html . .build/site
	@echo "open .build/site/index.html"

clean: ## remove everything that was made here
	rm -rf $(VENV) .build web/node_modules dist htmlcov .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache benchmarks/out
	find src tests tools benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# An environment that is already there is kept and brought up to date, however it was made.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
		"quorate needs Python 3.11 or newer; this is " + sys.version.split()[0] + \
		". Name another with: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)

# `-e` builds with the hatchling of the lock, not with one fetched for the occasion.
define install
	@$(PIP) --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip --default-pip
	$(PIP) install --quiet --require-hashes -r $(1)
	$(PIP) install --quiet --no-deps --no-build-isolation -e .
endef

$(RUNTIME): requirements/runtime.txt pyproject.toml | $(BIN)/python
	$(call install,requirements/runtime.txt)
	@touch $@

$(DEV): requirements/dev.txt pyproject.toml | $(BIN)/python
	$(call install,requirements/dev.txt)
	@touch $(RUNTIME) $@

$(BIN)/uv: | $(BIN)/python
	$(PIP) install --quiet 'uv>=0.5'

$(BROWSER): | $(DEV)
	@$(BIN)/python -m tools.chromium $@

$(KUBECTL): | $(DEV)
	@$(BIN)/python -m tools.system_package kubectl kubernetes-client $@
