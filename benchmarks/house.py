"""How large the code is and who imports whom, room by room; no code is imported, only read.

    python benchmarks/house.py [CHECKOUT] [--against CHECKOUT_BEFORE]

A room is a folder or a top-level file of src/sixfold. Lines are given as code / all: code is neither blank nor
only a comment (a docstring is code). A Python file that mostly holds values is data, like text and tables, and is
counted apart. Parameters are counted without self and cls; attributes are a class's own annotated fields and what
its methods assign to self. Imports are statements, those for type checking left out.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from report import counted, write_records

LANGUAGES = {".py": "Python", ".c": "C", ".h": "C", ".js": "JavaScript"}
DATA_FILES = {".txt", ".tsv", ".csv", ".json", ".jsonl", ".yaml"}
DATA_LINES, DATA_SHARE = 100, 0.5  # a module as long as this, so much of it values, is data
LONG_FUNCTION, VERY_LONG_FUNCTION = 40, 60  # lines
MANY_PARAMETERS, TOO_MANY_PARAMETERS = 8, 10
MANY_ATTRIBUTES = 12
CONFIGURATION = "BaseModel"  # what pydantic's models descend from

Rows = dict[tuple[str, str], dict[str, int]]  # (what is counted, where) -> numbers by name
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """A Python file, parsed."""

    name: str  # its path in src/sixfold
    room: str
    tree: ast.Module


def survey(checkout: Path) -> Rows:
    """Count everything in a checkout."""
    house = checkout / "src" / "sixfold"
    files = sorted(path for path in house.rglob("*") if path.suffix in LANGUAGES.keys() | DATA_FILES)
    if not files:
        raise SystemExit(f"{checkout} must be a checkout of Sixfold, but there is no code in {house}.")
    modules = [
        Module(str(path.relative_to(house)), room_of(path, house), ast.parse(path.read_text(encoding="utf-8")))
        for path in files
        if path.suffix == ".py"
    ]
    return {**lines(files, house), **functions(modules), **classes(modules), **imports(modules)}


def room_of(path: Path, house: Path) -> str:
    """Return the room a file is in."""
    first = path.relative_to(house).parts[0]
    return first.split(".")[0]


def lines(files: list[Path], house: Path) -> Rows:
    """Count the lines of each room and of all, by language."""
    code: Counter[tuple[str, str]] = Counter()
    total: Counter[tuple[str, str]] = Counter()
    for path in files:
        text = path.read_text(encoding="utf-8")
        kind = "data" if is_data(path, text) else LANGUAGES[path.suffix]
        for room in (room_of(path, house), "all rooms"):
            code[f"lines of {kind}", room] += num_code_lines(text, path.suffix)
            total[f"lines of {kind}", room] += len(text.splitlines())
    kinds = [f"lines of {kind}" for kind in ("Python", "C", "JavaScript", "data")]
    places = sorted(total, key=lambda place: (kinds.index(place[0]), place[1] == "all rooms", place[1]))
    return {place: {"code": code[place], "all": total[place]} for place in places}


def is_data(path: Path, text: str) -> bool:
    """Return whether a file holds values and not code."""
    if path.suffix != ".py":
        return path.suffix in DATA_FILES
    values = sum(
        length(statement)
        for statement in ast.parse(text).body
        if isinstance(statement, ast.Assign | ast.AnnAssign)
    )
    return len(text.splitlines()) >= DATA_LINES and values > DATA_SHARE * len(text.splitlines())


def num_code_lines(text: str, suffix: str) -> int:
    """Count the lines that are neither blank nor only a comment."""
    if suffix in (".c", ".h", ".js"):
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    comment = {".py": "#", ".yaml": "#"}.get(suffix, "//")
    return sum(bool(line.strip()) and not line.strip().startswith(comment) for line in text.splitlines())


def length(node: ast.stmt) -> int:
    """Return how many lines a statement has, its decorators not counted."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def functions(modules: list[Module]) -> Rows:
    """Count the functions that are long or take much, and name them."""
    found = [
        (f"{module.name}: {name}", node)
        for module in modules
        for name, node in named(module.tree)
        if isinstance(node, Function)
    ]
    sizes = [(name, length(node)) for name, node in found]
    parameters = [(name, num_parameters(node.args)) for name, node in found]
    return {
        ("functions", "all"): {"functions": len(found)},
        **over("functions", "lines", sizes, (VERY_LONG_FUNCTION, LONG_FUNCTION)),
        **over("functions", "parameters", parameters, (TOO_MANY_PARAMETERS, MANY_PARAMETERS)),
    }


def over(what: str, unit: str, numbers: list[tuple[str, int]], limits: tuple[int, ...]) -> Rows:
    """Count what exceeds each limit, and name what exceeds the last, the largest first."""
    rows: Rows = {}
    for limit in limits:
        rows[f"{what} over {limit} {unit}", "all"] = {what: sum(number > limit for _, number in numbers)}
    for name, number in sorted(numbers, key=lambda item: -item[1]):
        if number > limits[-1]:
            rows.setdefault((f"{what} over {limits[-1]} {unit}", name), {unit: number})  # the largest of a name
    return rows


def named(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function | ast.ClassDef]]:
    """Yield all functions and classes inside a node, with their dotted names."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function | ast.ClassDef):
            yield prefix + child.name, child
            yield from named(child, f"{prefix}{child.name}.")
        else:
            yield from named(child, prefix)


def num_parameters(arguments: ast.arguments) -> int:
    """Count a function's parameters without self and cls."""
    plain = [*arguments.posonlyargs, *arguments.args]
    first = bool(plain) and plain[0].arg in ("self", "cls")
    return len(plain) - first + len(arguments.kwonlyargs) + sum(map(bool, (arguments.vararg, arguments.kwarg)))


def classes(modules: list[Module]) -> Rows:
    """Count the classes with many attributes, and name them; pydantic's models are marked."""
    found = [
        (module.name, name, node)
        for module in modules
        for name, node in named(module.tree)
        if isinstance(node, ast.ClassDef)
    ]
    models = configurations([node for _, _, node in found])
    numbers = [
        (f"{file}: {name}{' (configuration)' if node.name in models else ''}", len(attributes(node)))
        for file, name, node in found
    ]
    return {
        ("classes", "all"): {"classes": len(found)},
        **over("classes", "attributes", numbers, (MANY_ATTRIBUTES,)),
    }


def configurations(nodes: list[ast.ClassDef]) -> set[str]:
    """Return the names of the classes that descend from pydantic's model."""
    bases = {node.name: {ast.unparse(base).split(".")[-1] for base in node.bases} for node in nodes}
    found = {CONFIGURATION}
    while more := {name for name, parents in bases.items() if parents & found} - found:
        found |= more
    return found


def attributes(node: ast.ClassDef) -> set[str]:
    """Return a class's annotated fields and what is assigned to self in it."""
    fields = {
        statement.target.id
        for statement in node.body
        if isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and "ClassVar" not in ast.unparse(statement.annotation)
    }
    assigned = {
        inner.attr
        for inner in ast.walk(node)
        if isinstance(inner, ast.Attribute)
        and isinstance(inner.ctx, ast.Store)
        and ast.unparse(inner.value) == "self"
    }
    return fields | assigned


def imports(modules: list[Module]) -> Rows:
    """Count the imports from each room to each other."""
    rooms = {module.room for module in modules}
    edges = Counter(
        (module.room, room) for module in modules for room in imported(module.tree, rooms) if room != module.room
    )
    rows: Rows = {("imports", "edges between rooms"): {"edges": len(edges)}}
    return rows | {("imports", f"{a} → {b}"): {"imports": number} for (a, b), number in sorted(edges.items())}


def imported(node: ast.AST, rooms: set[str]) -> Iterator[str]:
    """Yield the room that each import in a module takes something from."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (room_named(alias.name, rooms) for alias in child.names if is_ours(alias.name))
        elif isinstance(child, ast.ImportFrom):
            if is_ours(child.module or ""):
                yield from {room_named(f"{child.module}.{alias.name}", rooms) for alias in child.names}
        elif not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield from imported(child, rooms)


def is_ours(module: str) -> bool:
    """Return whether a module is of Sixfold."""
    return module.split(".")[0] == "sixfold"


def room_named(module: str, rooms: set[str]) -> str:
    """Return the room of a module or of a name in it; the package itself is its own room."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in rooms else "__init__"


def show(surveys: dict[str, Rows]) -> None:
    """Print the table: a row for each count, a column for each checkout."""
    table = Table(title="Size of the code")
    for heading in ("what", "where"):
        table.add_column(heading, overflow="fold")
    for heading in surveys:
        table.add_column(heading, justify="right", no_wrap=True)
    before = ""
    for what, where in in_order(surveys):
        if what != before:
            table.add_section()
        cells = [" / ".join(f"{n:,}" for n in rows.get((what, where), {}).values()) for rows in surveys.values()]
        table.add_row("" if what == before else what, where, *cells)
        before = what
    Console().print(table)


def in_order(surveys: dict[str, Rows]) -> list[tuple[str, str]]:
    """Return all that was counted in any checkout, what belongs together side by side."""
    places = list(dict.fromkeys(place for rows in surveys.values() for place in rows))
    groups = list(dict.fromkeys(what for what, _ in places))
    return sorted(places, key=lambda place: groups.index(place[0]))


def main() -> None:
    """Read the options, count, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, nargs="?", default=Path(__file__).parents[1])
    parser.add_argument("--against", type=Path, help="a checkout of the version before, to stand beside it")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    surveys = {"before": survey(options.against)} if options.against else {}
    surveys["after" if options.against else "now"] = survey(options.checkout)
    show(surveys)
    records = [
        counted("house", f"{what}, {where}", version, metric, number, metric)
        for version, rows in surveys.items()
        for (what, where), numbers in rows.items()
        for metric, number in numbers.items()
    ]
    write_records(records, options.json)


if __name__ == "__main__":
    main()
