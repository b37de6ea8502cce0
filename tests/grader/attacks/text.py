"""Text that is only read: cells that are too long, too deep, or slow to take apart. Nothing of it runs."""

from grader.attacks import WRONG, Attacks

ATTACKS = Attacks("text", ends="")
WRONG_MASK = WRONG["causal_mask"]

# Each of these once took the grader itself minutes, or gigabytes, or ended it.
for name, text in {
    "names that are given to names": ";".join(f"a{k}=a{k + 1}" for k in range(4500)),
    "lines of spaces": "\n".join(" " * 7900 + "$" for _ in range(6)),
    "a line of spaces and a mark": "x = 1\n" + " " * 49_000 + "$",
    "parentheses": "x = " + "(" * 5000 + "1" + ")" * 5000,
    "operators": "x = " + "-" * 40_000 + "1",
    "a sum": "x = 1" + "+1" * 2900,
    "attributes": "x" + ".y" * 20_000,
    "lambdas": "x = " + "lambda: " * 6000 + "1",
    "quotes": "x = " + '"""' * 3333 * 5,
    "f-strings": "x = " + 'f"{' * 140 + "1" + '}"' * 140,
    "lines that go on": "x = 1 \\\n" * 20_000,
    "indents": "".join(" " * k + "if 1:\n" for k in range(250)) + " " * 250 + "pass",
    "magics": "%time " * 8000 + "1",
    "shells": "x = !" + "!" * 40_000,
    "an assignment of magics": "x = %time " * 4000,
    "comments that end a text": '"""' + "# \\" * 15_000,
    "half a letter": "x = '" + "\ud800" * 10_000 + "'",
    "a text of another script": "x = '" + "\u202e\u0301" * 20_000 + "'",
}.items():
    ATTACKS.add(f"a cell of {name}", text + "\n", answer=WRONG_MASK)
ATTACKS.add("six cells of names that are given to names", ";".join(f"a{k}=a{k + 1}" for k in range(4500)),
            edit=lambda nb: nb["cells"].extend([nb["cells"][-3]] * 5))  # fmt: skip
ATTACKS.add("a cell of ten million letters", "x = 0\n" + "x = x + 1  # more\n" * 600_000)
