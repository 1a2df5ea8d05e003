# Needs Python 3.11 or newer, make and a package registry; everything else is installed into .venv.

VENV := .venv/bin
PIP := $(VENV)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile
PYTEST := $(VENV)/python -m pytest -q --durations 25
ALL := -m "" --hypothesis-profile all
# What can differ on PostgreSQL: these issue 96 % of all statements. See docs/development.md.
# The test of plans is first: later ones leave statistics by which PostgreSQL reads a small table as a whole.
POSTGRES := tests/api/test_plans.py \
  tests/models tests/services tests/commands tests/test_broker.py tests/test_health.py \
  tests/test_run_scheduler.py tests/test_worker.py tests/api/test_compressions.py tests/api/test_concurrency.py \
  tests/api/test_cursors.py tests/api/test_entries.py tests/api/test_idempotency.py tests/api/test_search_rows.py \
  tests/api/test_sessions.py tests/dashboard/test_access.py tests/dashboard/test_admin.py \
  tests/dashboard/test_comparisons.py tests/dashboard/test_compressions.py tests/dashboard/test_imports.py \
  tests/dashboard/test_sessions.py tests/dashboard/test_sign_in.py tests/dashboard/timeline/test_timeline.py \
  tests/dashboard/test_summaries.py --ignore tests/services/imports/test_parser.py \
  --ignore tests/models/test_long_histories.py \
  --ignore tests/commands/test_exit_codes.py \
  --ignore tests/services/compression/test_digests.py \
  --ignore tests/services/compression/test_paid_automatic.py \
  --ignore tests/services/compression/test_summarise.py --ignore tests/services/compression/test_totals.py \
  --ignore tests/services/compression/test_writers.py --ignore tests/commands/test_compress.py

# Tests that wait for servers, workers and browsers most of the time. The other tests use the processors
# meanwhile.
WAITING := tests/browser tests/client tests/commands tests/front/test_server.py tests/services/test_kills.py \
  tests/services/webhooks/test_running.py $(wildcard tests/test_*.py)

# Tests that often sleep. They are at the end of the list, where two processes begin.
SLEEPING := tests/front tests/models tests/services tests/llm
# No file of these takes long. The processes meet here, so none of them runs alone for long at the end.
SHORT := tests/core
OTHERS := $(filter-out $(SLEEPING) $(WAITING) $(SHORT),$(patsubst %/__init__.py,%,$(wildcard tests/*/__init__.py)))

.PHONY: up setup test test-all test-sqlite test-postgres tests/statements.txt lint bench lock prices

up: .venv/base.stamp  ## start Playhead: make up [HOST=0.0.0.0] [PORT=9000]
	@exec $(VENV)/python manage.py up $(if $(HOST),--host $(HOST)) $(if $(PORT),--port $(PORT))

setup: .venv/dev.stamp  ## everything that development needs

# The three run side by side, so that both cores are busy.
test: .venv/dev.stamp  ## everything that CI runs
	@$(MAKE) --jobs 3 --output-sync=target test-sqlite lint test-postgres

test-all: .venv/dev.stamp lint  ## every variant and example, and all that may reach a database on PostgreSQL too
	@$(MAKE) test-sqlite SELECTED='$(ALL)'
	@$(MAKE) test-postgres SELECTED='$(ALL) --ignore tests/browser --processes 2 0' POSTGRES=tests

# Modules are compiled once, even where the environment forbids it: those of pip and linters, too.
.venv/base.stamp .venv/dev.stamp lint test-sqlite test-postgres: export PYTHONDONTWRITEBYTECODE =

test-sqlite: .venv/dev.stamp
	$(VENV)/python -m tests.browser.chromium
	$(PYTEST) --processes 3 2 --together tests/browser $(WAITING) $(OTHERS) $(SHORT) $(SLEEPING) $(SELECTED)

test-postgres: .venv/dev.stamp
	$(PYTEST) --database postgres $(POSTGRES) $(or $(SELECTED),--without-repeats -m "not slow and not thorough")

tests/statements.txt: .venv/dev.stamp  ## lists again which tests repeat what others test on PostgreSQL
	$(VENV)/python -m tests.statements $(POSTGRES)

# Nobody reads mypy's cache after CI, and to write it takes a sixth of its time.
lint: .venv/dev.stamp
	$(VENV)/ruff check
	$(VENV)/ruff format --check
	$(VENV)/mypy $(if $(CI),--cache-dir /dev/null)
	$(VENV)/lint-imports

bench: .venv/dev.stamp
	$(VENV)/python -m bench.run

lock: .venv/dev.stamp  ## write the newest versions and their hashes into requirements/
	requirements/lock

prices: .venv/dev.stamp  ## write the prices that the installed genai-prices has for today
	$(VENV)/python requirements/price_list.py

.venv/bin/python:
	@requirements/make-venv

.venv/base.stamp: requirements/base.txt pyproject.toml | .venv/bin/python
	@echo "Installing Playhead's dependencies into .venv"
	@requirements/install requirements/base.txt
	@$(PIP) --no-build-isolation --editable .
	@touch $@

.venv/dev.stamp: requirements/dev.txt pyproject.toml | .venv/bin/python
	@echo "Installing the development tools into .venv"
	@requirements/install requirements/dev.txt
	@$(PIP) --no-build-isolation --editable .
	@touch .venv/base.stamp $@
