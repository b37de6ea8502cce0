"""What `make new` writes: the texts of tools/stubs/ with a name in them, and the lines that other files get."""

import re
from dataclasses import dataclass
from pathlib import Path
from string import Template

STUBS = Path(__file__).resolve().parent / "stubs"
KINDS = {  # what differs between the kinds in the texts that they share
    "mask": {
        "function_file": "attncourse/masks.py",
        "family": "sparse",
        "imports": "attention, masks, spec",
        "step": '"mask"',
        "changes": "[mask]{.step}",
        "judge": "Calls(spec.$name, cases, gradients=False)",
    },
    "score": {
        "function_file": "attncourse/scores.py",
        "family": "scores",
        "imports": "attention, scores, spec",
        "step": '"modify"',
        "changes": "[modify]{.step}",
        "judge": "Calls(definition, cases)",
    },
    "variant": {
        "function_file": "attncourse/variants/$name.py",
        "family": "dense",
        "imports": "attention, spec",
        "step": "",
        "changes": "TODO",
        "judge": "Calls(definition, cases)",
    },
}
MODULES = r'^MODULES = \{.*\n(    "\w+": "[\w.]+",\n)+'
ROUND = ("Implement", "Predict", "Repair", "Measure")  # the kinds of exercises, one after the other
FUNCTION = {"worth": "3 points", "difficulty": "2", "minutes": "20"}
NUMBER = {"worth": "1 point", "difficulty": "2", "minutes": "10", "judge": "Number(number)"}


@dataclass(frozen=True)
class Mechanism:
    """What is new: a mask, a score or a variant, its chapter, and how many exercises it has."""

    kind: str
    name: str
    number: int
    exercises: int

    @property
    def words(self) -> dict[str, str]:
        title = self.name.replace("_", " ").capitalize()
        words = {"name": self.name, "title": title, "lower": title.lower()}
        words |= {"number": str(self.number), "stem": f"{self.number:02}_{self.name}"}
        return words | {k: Template(x).substitute(words) for k, x in KINDS[self.kind].items()}

    @property
    def tasks(self) -> list[dict[str, str]]:
        """The words of each exercise, with the folder of its stubs; the first is called like the mechanism."""
        made = []
        for k in range(self.exercises):
            kind, again = ROUND[k % len(ROUND)], k // len(ROUND)
            ending = f"_{again + 1}" if again else ""
            name = f"{kind.lower()}_{self.name}{ending}" if k else self.name
            numeric = kind in ("Predict", "Measure")
            made.append(
                self.words
                | {"exercise": name, "exercise_title": name.replace("_", " ").capitalize()}
                | {"path": f"attncourse/grading/exercises/{self.name}/{name}.py"}
                | {"folder": "number" if numeric else self.kind, "kind": kind, "place": str(k + 1)}
                | (NUMBER if numeric else FUNCTION)
            )
        return made


def rendered(stub: str, words: dict[str, str]) -> str:
    """The text of a file of tools/stubs/ with these words in it."""
    return Template((STUBS / stub).read_text(encoding="utf-8")).substitute(words)


def behind(path: Path, *additions: tuple[str, str]) -> str:
    """The text of a file with lines added: each addition is (what they follow, the lines).

    Raises:
        ValueError: there is nothing that they could follow.
    """
    text = path.read_text(encoding="utf-8")
    for pattern, lines in additions:
        places = list(re.finditer(pattern, text, re.MULTILINE))
        if not places:
            raise ValueError(
                f"{path} needs a place for {lines.strip()!r}, behind {pattern}; add one"
            )
        text = text[: places[-1].end()] + lines + text[places[-1].end() :]
    return text


def texts(new: Mechanism, root: Path) -> dict[Path, str]:
    """Every Python file to write or to change, with its text."""
    words, package = new.words, root / "attncourse"
    exercises, support = package / "grading" / "exercises", root / "tests" / "support"
    definitions, function = package / "spec", root / words["function_file"]
    spec = definitions / f"{words['family']}.py"
    written = {
        spec: spec.read_text(encoding="utf-8") + rendered(f"{new.kind}/spec.py.txt", words),
        definitions / "__init__.py": behind(
            definitions / "__init__.py",
            (rf"spec\.{spec.stem} import \(\n", f"    {new.name},\n"),
        ),
        function: rendered(f"{new.kind}/function.py.txt", words),
        support / "cases" / f"{new.name}.py": rendered(f"{new.kind}/cases.py.txt", words),
        exercises / "__init__.py": behind(
            exercises / "__init__.py",
            (r'CHAPTERS = \((\n    "(?!capstone)\w+",)+\n', f'    "{new.name}",\n'),
        ),
        exercises / new.name / "__init__.py": rendered(
            "order.py.txt",
            words | {"order": "\n".join(f'    "{x["exercise"]}",' for x in new.tasks)},
        ),
    }
    if function.exists():  # masks and scores share a file
        written[function] = function.read_text(encoding="utf-8") + written[function]
    else:
        modules = support / "mutants" / "package.py"
        written[modules] = behind(modules, (MODULES, f'    "{new.name}": "variants.{new.name}",\n'))
    for task in new.tasks:
        stub = rendered(f"{task['folder']}/exercise.py.txt", task)
        written[root / task["path"]] = stub + rendered("exercise_end.py.txt", task)
    return written
