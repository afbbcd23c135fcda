# Every task of the kit, one a target. `make` alone lists them; nothing but git, python3 (with venv) and make is needed.

PYTHON ?= python3
PYTEST_ARGS ?= -n 2
# Fixed, so that the table of the demo is the one in the README; a real grading run draws its own.
DEMO_SEED := 2024

RUN := .venv/bin/python
PIP := $(RUN) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-browser lint mutants diagnoses bench guide clean
.DELETE_ON_ERROR:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s  %s\n", $$1, $$2 }' Makefile

demo: .venv/.installed ## grade the sample class in data/ and write its pages to demo-report/
	@$(RUN) -m autograder grade data/sample_class --out demo-report --seed $(DEMO_SEED) --no-resume --trust-students
	@echo
	@echo "The class:    demo-report/class.html   (open it in a browser)"
	@echo "Each student: demo-report/students/"

test: lint ## lint, then run the tests and measure branch coverage
	@$(RUN) -m pytest $(PYTEST_ARGS) -m "not slow and not browser" --cov --cov-report=term:skip-covered

test-slow: .venv/.installed-dev ## run the long tests: the whole kill matrix, kits, notebooks, the guide's walk
	@$(RUN) -m pytest -m slow

test-browser: .venv/.installed-dev ## run the tests that drive chromium; skipped, with the reason, where there is none
	@$(MAKE) --no-print-directory .venv/.installed-browser || echo "Playwright and JupyterLab cannot be installed here"
	@$(RUN) -m pytest -m browser -n 0

lint: .venv/.installed-dev ## ruff (rules and format) and mypy (strict)
	@$(RUN) -m ruff check --quiet .
	@$(RUN) -m ruff format --quiet --check . || { echo "Not in the house format: run .venv/bin/ruff format"; exit 1; }
	@$(RUN) -m mypy --no-error-summary

mutants: .venv/.installed-dev ## grade every known fault and print which check rejects it
	@$(RUN) -m tests.mutants $(MUTANTS_ARGS)

diagnoses: .venv/.installed-dev ## print what is planted in each faulty case beside what its student is told
	@$(RUN) -m tests.diagnoses $(MUTANTS_ARGS)

bench: .venv/.installed-bench ## measure a check, a save in `workshop watch`, the sandbox, and a class beside other graders
	@$(RUN) benchmarks/bench_check.py
	@$(RUN) benchmarks/bench_watch.py
	@$(RUN) benchmarks/bench_sandbox.py
	@$(RUN) benchmarks/bench_class.py
	@$(RUN) benchmarks/bench_scale.py
	@$(RUN) benchmarks/bench_cluster.py
	@$(RUN) benchmarks/bench_capstone.py

guide: .venv/.installed-guide ## build the guide as a site into guide-site/, offline
	@NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict
	@echo "The guide: guide-site/index.html   (open it in a browser)"
	@echo "Its search needs a server: python3 -m http.server --directory guide-site"

clean: ## remove what was built; .venv stays
	@rm -rf build dist *.egg-info demo-report guide-site screenshots .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find autograder solutions exercises data tests benchmarks -name __pycache__ -prune -exec rm -rf {} +

# The stamps make a second run quick: pip is asked again only when the pins or the requirements have changed.

.venv/.installed: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing the kit into .venv (the first time takes a few minutes)"
	@$(PIP) --editable .
	@touch $@

.venv/.installed-dev: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing the kit and its development tools into .venv (the first time takes a few minutes)"
	@$(PIP) --editable '.[dev]'
	@touch .venv/.installed $@

.venv/.installed-bench: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing what the kit is compared with into .venv (the first time takes a few minutes)"
	@$(PIP) --editable '.[dev,notebook,cluster]'
	@touch .venv/.installed .venv/.installed-dev $@

.venv/.installed-browser: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing what the tests in a browser need into .venv"
	@$(PIP) --editable '.[dev,browser]'
	@touch .venv/.installed .venv/.installed-dev $@

.venv/.installed-guide: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing what builds the guide into .venv (the first time takes a few minutes)"
	@$(PIP) --editable '.[guide]'
	@touch .venv/.installed $@

.venv/bin/python:
	@command -v "$(PYTHON)" > /dev/null || { \
	  echo "There is no '$(PYTHON)' here. Install Python 3.11, 3.12 or 3.13, or name yours: make demo PYTHON=python3.12"; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "$$("$(PYTHON)" --version) is too old: the kit needs 3.11 or newer. Name another: make demo PYTHON=python3.12"; exit 1; }
	@echo "Making the virtual environment .venv"
	@"$(PYTHON)" -m venv --clear .venv || { rm -rf .venv; \
	  echo "'$(PYTHON)' cannot make a virtual environment: install its venv module (Debian, Ubuntu: apt install python3-venv)"; \
	  exit 1; }
