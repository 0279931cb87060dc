# make lab    set up and start JupyterLab with the panel open
# make test   set up what the tests need and run them all
# make help   the rest

PYTHON ?= python3
VENV ?= .venv
# Passed to pip, for instance to take torch from an index with CPU builds.
PIP_ARGS ?=
PYTEST_ARGS ?=
LAB_ARGS ?=

export PIP_DISABLE_PIP_VERSION_CHECK = 1
BIN := $(VENV)/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)

# What an installed copy is built from. Python sources are not: the install is editable.
FRONT_END := $(shell find labextension/src labextension/style labextension/schema -type f -not -path '*/__tests__/*')
INSTALLED := pyproject.toml package.json package-lock.json hatch_build.py labextension/tsconfig.json \
	$(FRONT_END) $(shell find etc jupyter-config -type f)

.DEFAULT_GOAL := help
.PHONY: help lab test lint typecheck test-js test-py test-integrations bench screenshots notebooks clean

help:
	@echo 'make lab                start JupyterLab with the panel (sets everything up; LAB_ARGS="--port 9999")'
	@echo 'make test               all linters, type checkers and tests'
	@echo 'make lint | typecheck | test-js | test-py    parts of it (test-py: PYTEST_ARGS="tests/server -k hub")'
	@echo 'make test-integrations  the slow tests, against heavy third parties'
	@echo 'make bench              the benchmarks; results in benchmarks/results'
	@echo 'make screenshots        the pictures of the README and the docs, made by the browser tests'
	@echo 'make notebooks          run the notebooks and keep their outputs'
	@echo 'make clean              remove everything built, the virtual environment too'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
		|| { echo 'jupyter_vram needs Python 3.10 or newer; choose one with  make PYTHON=python3.12 …'; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null \
		|| { echo 'Python has no venv module here; on Debian or Ubuntu:  sudo apt-get install python3-venv'; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.lab: $(INSTALLED) | $(BIN)/python
	$(BIN)/python -m pip install -q $(PIP_ARGS) -e ".[lab]"
	@touch $@

$(VENV)/.test: $(INSTALLED) scripts/prepare_tests.py | $(BIN)/python
	$(BIN)/python -m pip install -q $(PIP_ARGS) -e ".[test]"
	$(BIN)/python scripts/prepare_tests.py
	@touch $@ $(VENV)/.lab

lab: $(VENV)/.lab
	$(BIN)/python scripts/lab.py $(LAB_ARGS)

test: lint typecheck test-js test-py

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	npm run --silent lint

typecheck: $(VENV)/.test
	$(BIN)/mypy
	npm run --silent typecheck

test-js: $(VENV)/.test
	npm test --silent

# The browser tests have a process of their own, since Playwright's loop and pytest-jupyter's don't mix;
# and so have those of the benchmarks, which ask NVML while nobody else does.
test-py: $(VENV)/.test
ifeq ($(PYTEST_ARGS),)
	$(BIN)/python -m pytest -n 2 --dist loadfile --ignore tests/ui --ignore tests/benchmarks
	$(BIN)/python -m pytest tests/benchmarks tests/ui
else
	$(BIN)/python -m pytest $(PYTEST_ARGS)
endif

test-integrations: $(VENV)/.test
	$(BIN)/python -m pytest tests/integrations -m integration $(PYTEST_ARGS)

bench: $(VENV)/.test
	$(BIN)/python benchmarks/dashboard.py
	$(BIN)/python benchmarks/record.py
	$(BIN)/python benchmarks/estimate.py

screenshots: $(VENV)/.test
	$(BIN)/python -m pytest tests/ui/test_golden_path.py tests/ui/test_panel.py -k "golden or dashboard"
	mkdir -p docs/images
	cp build/screenshots/golden-1-watch.png docs/images/panel.png
	cp build/screenshots/golden-3-report.png docs/images/report.png
	cp build/screenshots/golden-5-dry-run.png docs/images/dry-run.png
	cp build/screenshots/dashboard.png docs/images/dashboard.png

notebooks: $(VENV)/.test
	$(BIN)/python -m nbconvert --to notebook --execute --inplace \
		--ExecutePreprocessor.record_timing=False notebooks/*.ipynb

clean:
	rm -rf $(VENV) node_modules jupyter_vram/labextension labextension/lib labextension/tsconfig.tsbuildinfo \
		test-results build dist .mypy_cache .ruff_cache .pytest_cache
