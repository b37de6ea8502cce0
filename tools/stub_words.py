"""What `make new` is asked for, and the words that its texts in tools/stubs/ get."""

import re
from dataclasses import dataclass
from pathlib import Path
from string import Template

STUBS = Path(__file__).resolve().parent / "stubs"
MECHANISM = {  # what differs between the kinds in the texts that they share
    "mask": {
        "function_file": "attncourse/masks.py",
        "family": "sparse",
        "imports": "attention, masks, spec",
        "step": '"mask"',
        "changes": "[mask]{.step}",
    },
    "score": {
        "function_file": "attncourse/scores.py",
        "family": "scores",
        "imports": "attention, scores, spec",
        "step": '"modify"',
        "changes": "[modify]{.step}",
    },
    "variant": {
        "function_file": "attncourse/variants/$name.py",
        "family": "dense",
        "imports": "attention, spec",
        "step": "",
        "changes": "TODO",
    },
}
KINDS = (*MECHANISM, "exercise")
TENSORS = {
    "folder": "tensors",
    "arguments": "query, key, value",
    "more": "",
    "given": "",
    "row": "",
}
TASK = {  # of an exercise in which something is written
    "mask": {"folder": "mask", "arguments": "n, m, size"},
    "score": TENSORS
    | {
        "definition": "from attncourse import spec\n\n\n"
        "def definition(query, key, value, strength):\n"
        '    """The loops of the course, with this rule."""\n'
        "    return spec.scaled_dot_product_attention(\n"
        "        query, key, value, score_mod=spec.$name(strength)\n    )\n",
        "arguments": "query, key, value, strength",
        "more": ", strength",
        "given": ", 0.5",
        "row": "| `strength` | TODO |\n",
    },
    "variant": TENSORS | {"definition": "from attncourse.spec import $name as definition"},
    "exercise": TENSORS
    | {
        "definition": "\n\ndef definition(query, key, value):\n"
        '    """TODO: what is right, as literal loops, or a name of attncourse.spec."""\n'
        '    raise NotImplementedError("TODO: the definition of $name")\n',
    },
}
FUNCTION = {"worth": "3 points", "difficulty": "2", "minutes": "20"}
NUMBER = {"folder": "number", "worth": "1 point", "difficulty": "2", "minutes": "10"}
ROUND = ("Implement", "Predict", "Repair", "Measure")  # the kinds of exercises, one after the other


@dataclass(frozen=True)
class New:
    """What is new: a mechanism, exercises, or both.

    Args:
        kind: one of `KINDS`.
        name: of the mechanism, its first exercise and its new chapter.
        exercises: how many.
        chapter: to which it belongs; "" of a mechanism that stands in none.
        stem: of the notebooks of the chapter: ``"15_sinks"``.
        after: the chapter before a new one; "" where the chapter is there already.
        before: how many exercises the chapter has already.
        family: the file of the definitions, if not the usual one.
    """

    kind: str
    name: str
    exercises: int
    chapter: str
    stem: str
    after: str
    before: int = 0
    family: str = ""

    @property
    def words(self) -> dict[str, str]:
        title = self.name.replace("_", " ").capitalize()
        words = {"name": self.name, "title": title, "lower": title.lower()}
        words |= {"chapter": self.chapter, "stem": self.stem or "TODO"}
        words |= {"lower_chapter": self.chapter.replace("_", " ")}
        number = re.match(r"\d\d", self.stem)
        words |= {"number": str(int(number[0])) if number else "TODO"}
        words |= {"section": "The formula" if self.after else "TODO"}
        own = MECHANISM.get(self.kind, {}) | TASK[self.kind]
        words |= {k: Template(x).substitute(words) for k, x in own.items()}
        return words | ({"family": self.family} if self.family else {})

    @property
    def tasks(self) -> list[dict[str, str]]:
        """The words of each exercise, with the folder of its stubs; the first is called like what is new."""
        made = []
        for k in range(self.exercises):
            kind, again = ROUND[k % len(ROUND)], k // len(ROUND)
            ending = f"_{again + 1}" if again else ""
            name = f"{kind.lower()}_{self.name}{ending}" if k else self.name
            made.append(
                self.words
                | {"exercise": name, "exercise_title": name.replace("_", " ").capitalize()}
                | {"path": f"attncourse/grading/exercises/{self.chapter}/{name}.py"}
                | {"kind": kind, "place": str(self.before + k + 1)}
                | (NUMBER if kind in ("Predict", "Measure") else FUNCTION)
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


def longer(path: Path, stub: str, words: dict[str, str]) -> str:
    """The text of a file, if there is one, and behind it that of a stub."""
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    return before + rendered(stub, words)
