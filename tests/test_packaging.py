"""Installed packages are locked, their use is explained, and the list is complete."""

import json
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.test_house import ROOT, files, names

IN_THE_WHEEL = """
import json, sys
import django
django.setup()
from django.conf import settings
from django.contrib.staticfiles import finders
from django.template.loader import get_template
names = json.loads(sys.argv[1])
for name in names["templates"]:
    get_template(name)
for name in names["static"]:
    assert finders.find(name), name
assert settings.CHECKOUT is None
print(settings.PACKAGE)
"""


TYPED_AGENT = """
from historyapp.client import Playhead, Recorder

recorder = Recorder.open(Playhead("http://127.0.0.1:8000", "ph_key"))
reveal_type(recorder.say("go").positions)
reveal_type(recorder[0].short)
reveal_type(recorder[-1])
recorder.say(contents="go")
"""


def relative_names(folder: str) -> list[str]:
    return [str(path.relative_to(ROOT / folder)) for path in files(folder)]


def locks() -> list[Path]:
    return sorted((ROOT / "requirements").glob("*.txt"))


def test_the_locks_contain_no_host_and_no_folder() -> None:
    assert len(locks()) == 2
    for lock in locks():
        text = lock.read_text()
        assert re.findall(r"://|--(?:index|extra|find|trusted)|(?:^|\s)/", text, re.MULTILINE) == []


def test_every_locked_package_has_a_hash() -> None:
    for lock in locks():
        packages = re.split(r"^(?=[a-z0-9])", lock.read_text(), flags=re.MULTILINE)[1:]
        assert packages
        assert [package for package in packages if "--hash=sha256:" not in package] == []


def test_both_locks_agree() -> None:
    base, dev = (set(re.findall(r"^(\S+==\S+)", lock.read_text(), re.MULTILINE)) for lock in locks())
    assert base - dev == set()


def project() -> dict[str, list[str]]:
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {"runtime": metadata["dependencies"], **metadata["optional-dependencies"]}


def package(requirement: str) -> str:
    return re.split(r"[\[<>=~!;\s]", requirement)[0]


@pytest.mark.parametrize(("group", "lock"), [("runtime", "base.txt"), ("dev", "dev.txt")])
def test_every_dependency_is_locked(group: str, lock: str) -> None:
    locked = set(re.findall(r"^(\S+)==", (ROOT / "requirements" / lock).read_text(), re.MULTILINE))
    assert {package(requirement) for requirement in project()[group]} - locked == set()


@pytest.mark.parametrize("system", ["linux", "darwin"])
@pytest.mark.parametrize("python", ["3.11.0", "3.11.2", "3.12.0", "3.13.0", "3.14.0"])
def test_the_lock_is_complete_for_every_python(python: str, system: str) -> None:
    """Packages are installed without resolving dependencies, and the lock was made with one Python."""
    locked = set(re.findall(r"^(\S+)==", (ROOT / "requirements" / "base.txt").read_text(), re.MULTILINE))
    machine = {"python_full_version": python, "python_version": python.rpartition(".")[0]}
    machine |= {"sys_platform": system, "platform_system": system.title(), "os_name": "posix"}
    needs = [Requirement(text) for name in locked for text in requires(name) or []]
    wanted = {need.name for need in needs if need.marker is None or need.marker.evaluate(machine)}
    assert wanted
    assert {canonicalize_name(name) for name in wanted} - locked == set()


@pytest.mark.parametrize("group", ["runtime", "dev"])
def test_every_dependency_is_explained_in_the_docs(group: str) -> None:
    text = (ROOT / "docs" / "dependencies.md").read_text()
    defended = set(re.findall(r"^\| `([^`]+)` \| \S", text, re.MULTILINE))
    wanted = {package(requirement) for requirement in project()[group]}
    assert wanted
    assert wanted - defended == set()


def test_the_docs_explain_no_removed_dependency() -> None:
    text = (ROOT / "docs" / "dependencies.md").read_text()
    defended = set(re.findall(r"^\| `([^`]+)` \| \S", text, re.MULTILINE))
    assert defended - {package(name) for group in project().values() for name in group} == set()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return path


@pytest.mark.slow
def test_the_wheel_has_only_the_product(wheel: Path) -> None:
    packed = set(zipfile.ZipFile(wheel).namelist())
    assert set(names(files("historyapp", "dashboard"))) - packed == set()
    folders = {name.partition("/")[0] for name in packed if ".dist-info/" not in name}
    assert folders == {"historyapp", "dashboard"}


@pytest.mark.slow
def test_the_wheel_holds_templates_and_static_files(wheel: Path) -> None:
    packed = set(zipfile.ZipFile(wheel).namelist())
    wanted = {f"dashboard/{name}" for name in names(files("templates", "static"))}
    assert wanted
    assert wanted - packed == set()


@pytest.mark.slow
def test_the_wheel_says_that_it_has_types(wheel: Path) -> None:
    assert "historyapp/py.typed" in zipfile.ZipFile(wheel).namelist()


@pytest.mark.slow
@pytest.mark.thorough
def test_a_users_type_checker_sees_the_types_of_the_client(wheel: Path, tmp_path: Path) -> None:
    """In an environment of its own, where the wheel is installed as any package."""
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / "bin" / "python"
    (packages,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    zipfile.ZipFile(wheel).extractall(packages)
    shared = sysconfig.get_path("purelib"), *(path for path in sys.path if path.endswith("site-packages"))
    (packages / "shared.pth").write_text("\n".join(dict.fromkeys(shared)))
    (tmp_path / "agent.py").write_text(TYPED_AGENT)
    command = [sys.executable, "-m", "mypy", "--python-executable", str(python), "--strict", "agent.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert re.findall(r"agent\.py:\d+: (?:note: Revealed type is|error:) (.*)", done.stdout) == [
        '"list[int]"',
        '"str"',
        '"historyapp.wire.episodes.EpisodeOut"',
        'Unexpected keyword argument "contents"; did you mean "content"?  [call-arg]',
    ], done.stdout


@pytest.mark.slow
def test_the_unpacked_wheel_runs_without_the_repository(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    names = {folder: relative_names(folder) for folder in ("templates", "static")}
    environment = {
        "PYTHONPATH": str(tmp_path),
        "PLAYHEAD_HOME": str(tmp_path / "home"),
        "DJANGO_SETTINGS_MODULE": "historyapp.settings",
    }
    command = [sys.executable, "-c", IN_THE_WHEEL, json.dumps(names)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(tmp_path)
