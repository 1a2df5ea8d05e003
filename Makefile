# Needs Python 3.11 or newer, make and a package registry; everything else is installed into .venv.

VENV := .venv/bin
PIP := $(VENV)/python -m pip install --quiet --disable-pip-version-check --no-deps
# A third worker, for two cores: many tests wait for servers, browsers and workers.
PYTEST := $(VENV)/python -m pytest -q --numprocesses 3 --dist loadfile --no-loadscope-reorder --durations 25
ALL := -m "" --hypothesis-profile all
# What can differ on PostgreSQL: these issue 97 % of all statements. See docs/development.md.
POSTGRES := tests/models tests/services tests/commands tests/test_broker.py tests/test_health.py tests/test_worker.py \
  $(patsubst %,tests/api/test_%.py,auth compressions concurrency contexts_api cursors entries episodes etags \
    forks history idempotency kinds rewinds sessions) \
  $(patsubst %,tests/dashboard/test_%.py,access admin comparisons compressions imports kinds rewinds sessions \
    sign_in step_filter strip summaries)

.PHONY: up setup test test-all test-sqlite test-postgres lint bench lock

up: .venv/base.stamp  ## start Playhead: make up [HOST=0.0.0.0] [PORT=9000]
	@exec $(VENV)/python manage.py up $(if $(HOST),--host $(HOST)) $(if $(PORT),--port $(PORT))

setup: .venv/dev.stamp  ## everything that development needs

test: .venv/dev.stamp  ## everything that CI runs
	@$(MAKE) --jobs 2 lint test-sqlite
	@$(MAKE) test-postgres

test-all: .venv/dev.stamp lint  ## every variant and example, and all that may reach a database on PostgreSQL too
	@$(MAKE) test-sqlite SELECTED='$(ALL)'
	@$(MAKE) test-postgres SELECTED='$(ALL) --ignore tests/browser' POSTGRES=tests

# Modules are compiled once, not again by each of the many processes, even where the environment forbids it.
test-sqlite test-postgres: export PYTHONDONTWRITEBYTECODE =

test-sqlite: .venv/dev.stamp
	$(VENV)/python -m tests.browser.chromium
	$(PYTEST) $(SELECTED)

test-postgres: .venv/dev.stamp
	$(PYTEST) --database postgres $(POSTGRES) $(or $(SELECTED),-m "not slow and not thorough")

lint: .venv/dev.stamp
	$(VENV)/ruff check
	$(VENV)/ruff format --check
	$(VENV)/mypy
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
