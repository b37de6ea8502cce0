"""The code that `make new` writes: definitions, functions, cases and exercises."""

from pathlib import Path

from stub_words import New, behind, longer, rendered

MODULES = r'^MODULES = \{.*\n(    "\w+": "[\w.]+",\n)+'


def mechanism(new: New, root: Path) -> dict[Path, str]:
    """The definition, the function and the cases of a mechanism."""
    words, support = new.words, root / "tests" / "support"
    spec = root / "attncourse" / "spec" / f"{words['family']}.py"
    function = root / words["function_file"]
    written = {
        spec: longer(spec, f"{new.kind}/spec.py.txt", words),
        function: longer(function, f"{new.kind}/function.py.txt", words),
        support / "cases" / f"{new.name}.py": rendered(f"{new.kind}/cases.py.txt", words),
    }
    if not function.exists():  # masks and scores share a file
        modules = support / "mutants" / "package.py"
        written[modules] = behind(modules, (MODULES, f'    "{new.name}": "variants.{new.name}",\n'))
    return written


def exercises(new: New, root: Path) -> dict[Path, str]:
    """The files of the exercises, and their right answers."""
    folder = root / "attncourse" / "grading" / "exercises"
    chapter = folder / new.chapter / "__init__.py"
    module = root / "tests" / "exercises" / "styles" / f"{new.chapter}.py"
    written = {root / x["path"]: rendered(f"{x['folder']}/exercise.py.txt", x) for x in new.tasks}
    written[module] = "" if module.exists() else rendered("styles.py.txt", new.words)
    written[module] = (module.read_text("utf-8") if module.exists() else "") + written[module]
    for task in new.tasks:
        kind = "number" if task["folder"] == "number" else "function"
        written[module] += rendered(f"styles_{kind}.py.txt", task)
    if not chapter.exists():
        written[chapter] = f'"""The exercises on {new.words["lower"]}."""\n'
    return written


def texts(new: New, root: Path) -> dict[Path, str]:
    """Every Python file to write or to change, with its text."""
    made = {} if new.kind == "exercise" else mechanism(new, root)
    return made | (exercises(new, root) if new.exercises else {})
