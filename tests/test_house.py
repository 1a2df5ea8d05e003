"""Rules of the project that no linter checks."""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import grimp

ROOT = Path(__file__).parents[1]
FOLDERS = ("historyapp", "dashboard", "templates", "static", "tests", "bench")
FORBIDDEN_NAMES = {"utils", "helpers", "managers", "signals", "constants"}


def files(*folders: str, suffixes: Collection[str] = ()) -> list[Path]:
    """The repository's files in some folders, all of them or only those with one of the suffixes."""
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*")) if path.is_file()]
    own = [path for path in paths if "__pycache__" not in path.parts]
    return [path for path in own if path.suffix in suffixes or not suffixes]


def sources() -> list[Path]:
    paths = files(*FOLDERS, suffixes=(".py", ".html", ".css", ".js"))
    return [path for path in paths if "migrations" not in path.parts]


def python_files() -> list[Path]:
    return [path for path in sources() if path.suffix == ".py"]


class Definition(NamedTuple):
    """A function or a class of a module."""

    name: str
    line: int
    lines: int
    is_class: bool
    is_global: bool
    undocumented: set[str]
    """What its docstring lists below ``Args:`` and it does not take."""


class Module(NamedTuple):
    definitions: list[Definition]
    """The functions and classes, also those inside others."""
    private_imports: list[str]
    """The private names that it imports from other modules of the project."""
    names: set[str]
    """Its functions, classes and methods (``Class.method``)."""


@cache
def parsed(path: Path) -> Module:
    """Each module is parsed once for all tests."""
    tree = ast.parse(path.read_text())
    nodes, body = list(statements(tree)), {id(node) for node in tree.body}
    definitions = [
        Definition(
            node.name,
            node.lineno,
            (node.end_lineno or 0) - node.lineno + 1,
            isinstance(node, ast.ClassDef),
            id(node) in body,
            unknown_arguments(node),
        )
        for node in nodes
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    ]
    private_imports = [
        alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in FOLDERS
        for alias in node.names
        if alias.name.startswith("_")
    ]
    methods = {
        f"{node.name}.{each.name}"
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        for each in node.body
        if isinstance(each, ast.FunctionDef)
    }
    names = {definition.name for definition in definitions if definition.is_global}
    return Module(definitions, private_imports, names | methods)


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """The statements inside a node, at any depth. No expression contains a statement."""
    for field in ("body", "orelse", "handlers", "finalbody", "cases"):
        for inner in getattr(node, field, ()):
            yield inner
            yield from statements(inner)


def unknown_arguments(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> set[str]:
    """What a docstring lists below ``Args:``, without what its function or class takes."""
    documented = documented_arguments(ast.get_docstring(node) or "")
    existing = arguments(node) if documented else set()
    if not existing and isinstance(node, ast.ClassDef):
        return set()  # its base class has them
    return documented - existing


def names(paths: list[Path]) -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for path in paths)


def test_the_package_file_is_empty() -> None:
    assert (ROOT / "historyapp" / "__init__.py").read_bytes() == b""


def test_no_file_is_longer_than_400_lines() -> None:
    assert names([path for path in sources() if len(path.read_text().splitlines()) > 400]) == []


def test_no_line_of_a_template_is_longer_than_160_characters() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in files("templates", suffixes=(".html",))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > 160
    ]
    assert long == []


def test_a_link_that_replaces_itself_names_its_target() -> None:
    """Else it inherits the target of a part around it: within that part it does nothing."""
    assert [
        f"{path.relative_to(ROOT)}: {link}"
        for path in files("templates", suffixes=(".html",))
        for link in re.findall(r"<a [^<]*", path.read_text())
        if "hx-get" in link and "outerHTML" in link and "hx-target" not in link
    ] == []


def test_no_function_is_longer_than_60_lines() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{definition.line} {definition.name}"
        for path in python_files()
        for definition in parsed(path).definitions
        if definition.lines > 60 and not definition.is_class
    ]
    assert long == []


def documented_arguments(docstring: str) -> set[str]:
    """The names below ``Args:``; further lines of a description are indented deeper."""
    _, _, section = docstring.partition("\nArgs:\n")
    lines = re.findall(
        r"^ {4}(\*{0,2}\w+(?:, \*{0,2}\w+)*):", section.partition("\n\n")[0], flags=re.MULTILINE
    )
    return {name.strip(" *") for line in lines for name in line.split(",")}


def arguments(node: ast.AST) -> set[str]:
    """The names that a function takes; for a class, those of its ``__init__``, or its fields."""
    if isinstance(node, ast.ClassDef):
        annotated = [each.target for each in node.body if isinstance(each, ast.AnnAssign)]
        fields = {target.id for target in annotated if isinstance(target, ast.Name)}
        inits = [each for each in node.body if getattr(each, "name", "") == "__init__"]
        return fields.union(*map(arguments, inits))
    return {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}


def test_every_documented_argument_exists() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} {definition.name}: {name}"
        for path in python_files()
        for definition in parsed(path).definitions
        for name in sorted(definition.undocumented)
    ]
    assert wrong == []


def test_no_module_has_a_vague_name() -> None:
    assert names([path for path in python_files() if path.stem in FORBIDDEN_NAMES]) == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = grimp.build_graph("historyapp", "dashboard")
    TopologicalSorter({m: graph.find_modules_directly_imported_by(m) for m in graph.modules}).prepare()


def test_no_private_name_of_another_module_is_imported() -> None:
    imported = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in python_files()
        for name in parsed(path).private_imports
    ]
    assert imported == []


def test_the_measurements_import_names_that_exist() -> None:
    """mypy does not check them, and no test calls most of them."""
    missing = [
        f"{path.relative_to(ROOT)}: {node.module}.{alias.name}"
        for path in files("bench", suffixes=(".py",))
        for node in statements(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in FOLDERS
        for alias in node.names
        if not is_named_in(node.module or "", alias.name)
    ]
    assert missing == []


def is_named_in(module: str, name: str) -> bool:
    """Whether the module has the name, or the package has such a module. Of a measurement, only the file must
    exist."""
    if module.split(".")[0] == "bench":
        path = ROOT.joinpath(*module.split("."))
        return path.is_dir() or path.with_suffix(".py").exists()
    return hasattr(import_module(module), name) or find_spec(f"{module}.{name}") is not None


def test_class_names_are_unique() -> None:
    """Except Django's commands, and an entry and a step: a value of the core and a row of a table."""
    times = Counter(
        definition.name
        for path in python_files()
        if path.relative_to(ROOT).parts[0] in ("historyapp", "dashboard")
        for definition in parsed(path).definitions
        if definition.is_class and definition.is_global
    )
    assert {name for name, count in times.items() if count > 1} == {"Command", "Entry", "Episode"}


def test_no_todo_is_left() -> None:
    marker = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    paths = [path for path in sources() if path != Path(__file__)]
    assert names([path for path in paths if marker.search(path.read_text())]) == []


def loaded_by(code: str) -> set[str]:
    """The packages that a process has loaded after some imports."""
    code += "\nimport sys; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_the_core_loads_without_django_and_other_large_packages() -> None:
    core = ROOT / "historyapp" / "core"
    modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in sorted(core.rglob("*.py"))]
    loaded = loaded_by("\n".join(f"import {name.removesuffix('.__init__')}" for name in modules))
    assert "pydantic" in loaded
    assert loaded & {"django", "ninja", "celery", "httpx", "spacy"} == set()


def test_the_parent_process_loads_without_django() -> None:
    loaded = loaded_by("import historyapp.supervisor")
    assert "historyapp" in loaded
    assert loaded & {"django", "ninja", "celery", "httpx", "pydantic"} == set()


@cache
def variables() -> set[str]:
    """Every environment variable that the product reads: ``env.text("NAME")``, ``os.environ["NAME"]`` …"""
    text = "\n".join(path.read_text() for path in files("historyapp", "dashboard", suffixes=(".py",)))
    return {
        *re.findall(r"\benv\.\w+\(\s*\"(\w+)\"", text),
        *re.findall(r"\benviron(?:\.get)?[\[(]\"(\w+)\"", text),
    }


def test_every_setting_is_documented_and_every_documented_setting_exists() -> None:
    text = (ROOT / "docs" / "settings.md").read_text()
    assert set(re.findall(r"^\| `([A-Z_]+)` \|", text, re.MULTILINE)) == variables()


def test_only_one_module_puts_the_marks_of_texts_in_order() -> None:
    """It takes quadratic time, so a text must be cut before."""
    callers = [path for path in python_files() if re.search(r"\bnormalize\b", path.read_text())]
    product = [path for path in callers if path.relative_to(ROOT).parts[0] in ("historyapp", "dashboard")]
    assert names(product) == ["historyapp/core/search_tokens.py"]


ARCHITECTURE = ROOT / "docs" / "architecture.md"


def named_path(name: str) -> Path | None:
    """The file or folder that a name on the architecture page means, or None.

    A name is relative to the repository or to historyapp/. A name without a slash may be in any folder.
    """
    paths = [ROOT / name, ROOT / "historyapp" / name]
    return next((path for path in paths if path.exists()), paths_by_name().get(name.rstrip("/")))


@cache
def paths_by_name() -> dict[str, Path]:
    """Files and folders by their names; of several with the same name, the first."""
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    return {path.name: path for path in reversed(found)}


def architecture_blocks() -> list[str]:
    """The list items, table rows and paragraphs of the page, without its picture."""
    text = re.sub(r"^```.*?^```$", "", ARCHITECTURE.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [" ".join(block.split()) for block in re.split(r"\n(?=\n|\||- |\d+\. )", text) if block.strip()]


def test_every_path_of_the_architecture_page_exists() -> None:
    text = ARCHITECTURE.read_text()
    names = set(re.findall(r"(?<![\w/{}])((?:\w+/)+(?:\w+\.\w+)?|\w+\.py)(?![\w{])", text))
    assert len(names) > 50
    assert sorted(name for name in names if named_path(name) is None) == []


def test_every_function_of_the_architecture_page_is_in_a_module_beside_it() -> None:
    missing = []
    for block in architecture_blocks():
        spans = re.findall(r"`([^`]+)`", block)
        paths = [path for span in spans if (path := named_path(span))]
        names = set().union(*(parsed(path).names for path in paths if path.suffix == ".py"))
        wanted = [
            span.removesuffix("()") for span in spans if re.fullmatch(r"[\w.]+\(\)|[A-Z]\w+[a-z]", span)
        ]
        missing += [f"{name} in {block[:60]}" for name in wanted if name not in names]
    assert missing == []


def test_every_test_file_that_the_makefile_names_exists() -> None:
    named = re.findall(r"\btests/[\w/.]+(?!\S*\*)\b", (ROOT / "Makefile").read_text())
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []
