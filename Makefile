# Needs Python 3.11 or newer, make and a package registry; everything else is installed into .venv.

VENV := .venv/bin
PIP := $(VENV)/python -m pip install --quiet --disable-pip-version-check --no-deps
PYTEST := $(VENV)/python -m pytest -q --numprocesses 3 --dist loadfile --no-loadscope-reorder

.PHONY: up setup test lint bench lock

up: .venv/base.stamp  ## start Playhead: make up [HOST=0.0.0.0] [PORT=9000]
	@exec $(VENV)/python manage.py up $(if $(HOST),--host $(HOST)) $(if $(PORT),--port $(PORT))

setup: .venv/dev.stamp  ## everything that development needs

# Modules are compiled once, not again by each of the many processes, even where the environment forbids it.
test: export PYTHONDONTWRITEBYTECODE =
test: .venv/dev.stamp lint  ## everything that CI runs
	$(VENV)/python -m tests.browser.chromium
	$(PYTEST)
	$(PYTEST) --database postgres -m "not slow" --ignore tests/browser --ignore tests/core --ignore tests/test_house.py

lint: .venv/dev.stamp
	$(VENV)/ruff check
	$(VENV)/ruff format --check
	$(VENV)/mypy --num-workers 2
	$(VENV)/lint-imports

bench: .venv/dev.stamp
	$(VENV)/python -m bench.run

lock: .venv/dev.stamp  ## write the newest versions and their hashes into requirements/
	requirements/lock

.venv/bin/python:
	@requirements/make-venv

.venv/base.stamp: requirements/base.txt pyproject.toml | .venv/bin/python
	@echo "Installing Playhead's dependencies into .venv"
	@$(PIP) --require-hashes -r requirements/base.txt
	@$(PIP) --no-build-isolation --editable .
	@touch $@

.venv/dev.stamp: requirements/dev.txt pyproject.toml | .venv/bin/python
	@echo "Installing the development tools into .venv"
	@$(PIP) --require-hashes -r requirements/dev.txt
	@$(PIP) --no-build-isolation --editable .
	@touch .venv/base.stamp $@
