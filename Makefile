# Needs Python >= 3.11, node >= 20 (with npm), git and make; every target sets up the rest itself.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
# One thing after the other, but for what only reads, the checks, and the environment, whose parts
# name what they need.
ifeq ($(filter checks lint venv,$(MAKECMDGOALS)),)
.NOTPARALLEL:
endif

PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo "$$python" && break; done)
CORES := $(shell nproc)
# For two cores. Tests of processes wait for much of their time: with four workers, a third of it is
# still idle. Each browser test keeps a core busy, so of those only as many run at once as there are
# cores: see tests/e2e/turns.py.
WORKERS ?= 4
BENCH ?= spawn
ARGS ?=

VENV := .venv
DONE := $(VENV)/.done
# Tests that this run leaves out, see tests/tiers.py.
export EC2SPAWNER_LEFT_OUT ?= nightly or long
# What the others use of the system.
export EC2SPAWNER_SYSTEM ?= chromium containers postgresql
CONSTRAINTS := ec2spawner/data/constraints.txt
LAB_SOURCES := $(shell find labextension -type f \( -path '*/src/*' -o -path '*/schema/*' -o -path '*/style/*' \)) \
	$(addprefix labextension/,package.json package-lock.json tsconfig.json)

export PATH := $(CURDIR)/$(VENV)/bin:$(CURDIR)/$(VENV)/node/node_modules/.bin:$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# A failure that depends on the order of a set is reproduced with the same seed.
export PYTHONHASHSEED ?= 0
# Overrides what the environment says: without bytecode each worker would rewrite all assertions, and
# each hub, embedded EC2, agent and notebook would compile the package again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help venv demo quick affected test test-all test-long checks lint types unit core frontend docs pytest bench deflake mutants clean \
	system chromium containers postgresql boot torch focus advisor

help:  ## What there is to make
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: venv  ## JupyterHub on an embedded EC2, on this machine: open the address it prints
	ec2spawner demo $(ARGS)

quick: venv  ## At each save: lint, types, unit tests of what is pure
	$(MAKE) --no-print-directory --output-sync=target --jobs=$(CORES) lint types
	$(MAKE) --no-print-directory unit

affected: venv  ## SINCE=COMMIT: what a change can reach, by default since origin/main; ARGS=--list lists it
	python -m tests.affected $(if $(SINCE),--since $(SINCE)) $(ARGS)

# The folder in which the embedded EC2s note which permissions of the hub's policy were needed.
test: export EC2SPAWNER_POLICY_USE = $(CURDIR)/tests/output/policy-use
# The system's packages come beside the environment and the checks: one more than there are cores,
# for apt-get waits for the network most of its time.
test: $(DONE)/tools  ## What a change must pass: each promise once, in a real browser too
	rm -rf $(EC2SPAWNER_POLICY_USE) && mkdir -p $(EC2SPAWNER_POLICY_USE)
	$(MAKE) --no-print-directory --output-sync=target --jobs=$$(($(CORES) + 1)) system checks
	$(MAKE) --no-print-directory pytest
	$(if $(ARGS),,python -m tests.policy_use $(EC2SPAWNER_POLICY_USE))

test-all: EC2SPAWNER_LEFT_OUT := long
test-all: EC2SPAWNER_SYSTEM += boot
test-all: core test  ## Each night, and before a release or the end of a large change: everything but test-long

test-long: venv chromium containers postgresql boot torch $(DONE)/aws-cli  ## Before a release: what takes too long for each night
	pytest -m long -n $(CORES) --dist worksteal --durations=0 -rP --show-capture=stdout $(ARGS)

checks: types docs lint frontend

lint: venv  ## Style and spelling
	ruff format --check .
	ruff check .
	codespell
	shellcheck $$(git ls-files '*.sh') .ci/run
	npm --prefix labextension --silent run lint

types: venv
	mypy

unit: venv
	pytest -m "not nightly and not long" -n $(CORES) --dist worksteal $$(python -m tests.tiers pure)

core: venv  ## Branch coverage of ec2spawner/core by its own unit tests
	pytest -m "not long" -n $(CORES) --dist worksteal --cov --cov-report= tests/unit/core
	@total=$$(coverage report --format=total); echo "Branch coverage of ec2spawner/core by its tests: $$total %"

frontend: venv
	npm --prefix labextension --silent test

docs: venv  ## The documentation, warnings as errors
	sphinx-build -q -W --keep-going -b html docs docs/_build/html

# Last in `test`, so that its summary is what one reads. In the order of tests/conftest.py: the files
# that take longest first, where xdist would begin with those of many tests.
pytest: venv
	python -m tests.run -m "not ($(EC2SPAWNER_LEFT_OUT))" -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=15 $(ARGS)

deflake: venv  ## N=5 SEED=1 ARGS=tests/unit/provisioner: run tests N times in random orders, beside a busy core
	python -m tests.deflake --runs $(or $(N),5) --first $(or $(SEED),1) -m "not long" -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

mutants: venv  ## Try mutants of the product; ARGS=contexts: which tests execute each, ARGS=report: the page
	python -m tests.mutants $(ARGS)

advisor: venv  ## Newer figures of AWS's Spot Instance Advisor, in the package and on the pages
	python -m tests.spot_advisor $(ARGS)
	python -m tests.bench.traces

focus: venv  ## The FOCUS export, checked by the FinOps Foundation's validator
	tests/focus/validate.sh

bench: venv  ## BENCH=spawn: measure one of the benches
	python -m tests.bench $(BENCH) $(ARGS)

clean:  ## Remove what was built; the environment in .venv stays
	rm -rf build dist *.egg-info docs/_build tests/output ec2spawner/labextension \
		labextension/lib labextension/tsconfig.tsbuildinfo \
		.mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache \
		$(DONE)/labextension

# --- the development environment ---------------------------------------------------------------

venv: $(DONE)/python $(DONE)/scheduler $(DONE)/labextension $(DONE)/links $(DONE)/startup $(DONE)/proxy  ## All of it, in .venv

$(DONE)/tools:
	@test -n "$(PYTHON)" || { echo 'Python 3.11 or later is needed' >&2; exit 1; }
	@node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' \
		|| { echo 'node 20 or later is needed' >&2; exit 1; }
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	mkdir -p $(DONE)
	touch $@

# Not left to pip's isolation, so that what builds the package is pinned too.
$(DONE)/builder: $(CONSTRAINTS) | $(DONE)/tools
	python -m pip install --quiet --constraint $(CONSTRAINTS) setuptools jupyter-builder
	touch $@

$(DONE)/python: pyproject.toml setup.py $(CONSTRAINTS) | $(DONE)/builder
	python -m pip install --quiet --constraint $(CONSTRAINTS) --no-build-isolation -e '.[dev]'
	touch $@

$(DONE)/node_modules: labextension/package-lock.json labextension/.npmrc | $(DONE)/tools
	npm --prefix labextension --silent ci --ignore-scripts
	touch $@

# pip works on one core for a minute: this beside it.
$(DONE)/labextension: $(LAB_SOURCES) setup.py | $(DONE)/builder $(DONE)/node_modules
	python setup.py --quiet build_labextension
	touch $@

# An editable install leaves out data files: this is where Jupyter finds them.
$(DONE)/links: | $(DONE)/tools
	mkdir -p $(VENV)/share/jupyter/labextensions $(VENV)/etc/jupyter/jupyter_server_config.d
	ln -sfn ../../../../ec2spawner/labextension \
		$(VENV)/share/jupyter/labextensions/ec2spawner-lab
	ln -sfn ../../../../jupyter-config/jupyter_server_config.d/ec2spawner.json \
		$(VENV)/etc/jupyter/jupyter_server_config.d/ec2spawner.json
	touch $@

$(DONE)/startup: | $(DONE)/tools
	mkdir -p $(VENV)/etc/ipython/startup
	ln -sfn ../../../../jupyter-config/ipython-startup/50-ec2spawner.py \
		$(VENV)/etc/ipython/startup/50-ec2spawner.py
	touch $@

$(DONE)/proxy: proxy/package.json proxy/package-lock.json proxy/.npmrc | $(DONE)/tools
	mkdir -p $(VENV)/node
	cp $^ $(VENV)/node
	npm --prefix $(VENV)/node --silent ci --ignore-scripts
	touch $@

# For the commands on the pages. It needs an older docutils than Sphinx: a folder of its own.
$(DONE)/aws-cli: tests/aws-cli-requirements.txt | $(DONE)/tools
	rm -rf $(VENV)/aws
	python -m pip install --quiet --no-deps --target $(VENV)/aws --requirement $<
	touch $@

# For the training on a cluster of torchrun. With its CUDA libraries it takes 5 GB: an environment of
# its own, which sees what is in ours.
torch: $(DONE)/torch

$(DONE)/torch: tests/torch-requirements.txt | $(DONE)/python
	rm -rf $(VENV)/torch
	$(VENV)/bin/python -m venv $(VENV)/torch
	$(VENV)/torch/bin/python -m pip install --quiet --requirement $<
	packages='import sysconfig; print(sysconfig.get_path("purelib"))'; \
	echo "import site; site.addsitedir('$$($(VENV)/bin/python -c "$$packages")')" \
		> "$$($(VENV)/torch/bin/python -c "$$packages")/ec2spawner-environment.pth"
	touch $@

# Beside the environment, because in it every notebook server of the tests would load its extensions.
$(DONE)/scheduler: $(CONSTRAINTS) | $(DONE)/python
	rm -rf $(VENV)/scheduler
	$(VENV)/bin/python -m pip install --quiet --constraint $< --no-deps --target $(VENV)/scheduler \
		jupyter_scheduler croniter pytz
	touch $@

# --- what the tests use of the system ----------------------------------------------------------

# One after the other: apt-get does not wait for another.
system:
	$(MAKE) --no-print-directory $(EC2SPAWNER_SYSTEM)

# $(1): a command that succeeds where it is there. $(2): what it is. $(3): which tests need it.
# $(4): its package for apt-get.
define installed
	@if { $(1); } >/dev/null 2>&1; then exit 0; fi; \
	if ! command -v apt-get >/dev/null; then missing='there is no apt-get here'; \
	elif [ "$$(id -u)" = 0 ]; then root=; \
	elif sudo -n true 2>/dev/null; then root=sudo; \
	else missing='installing needs root or sudo without a password'; fi; \
	if [ -z "$${missing-}" ]; then \
		echo 'Installing $(2) for $(3)'; \
		{ $$root apt-get update -qq && $$root apt-get install -qq -y $(4) >/dev/null; } \
			|| missing='apt-get could not install it'; \
	fi; \
	if [ -n "$${missing-}" ]; then \
		echo '**********************************************************************'; \
		echo "** SKIPPED: $(3). No $(2), and $$missing."; \
		echo '** Install $(2) and run make again.'; \
		echo '**********************************************************************'; \
	fi
endef

chromium:
	$(call installed,command -v chromium chromium-browser,Chromium,the browser tests,chromium)

# The tests start servers of their own, each in a folder of its own.
containers:
	$(call installed,command -v podman && command -v runc && ls /usr/libexec/podman/catatonit,podman,the \
	tests of servers in containers,podman runc catatonit)

postgresql:
	$(call installed,command -v postgres || ls /usr/lib/postgresql/*/bin/postgres,PostgreSQL,the \
	tests of a store on PostgreSQL,postgresql)

# A root file system and wheels, made once in the cache folder. Without them the tests are skipped.
boot: $(DONE)/tools
	$(call installed,command -v systemd-nspawn && command -v debootstrap,systemd-nspawn and \
	debootstrap,the tests that really boot,debootstrap systemd-container)
	@if [ "$$(id -u)" != 0 ]; then echo '** SKIPPED: the tests that really boot: only root can'; \
	elif ! tests/boot/make_root.sh $(VENV)/bin/python; then \
		echo '** SKIPPED: the tests that really boot: their root could not be made'; fi
