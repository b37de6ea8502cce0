"""Notes for the teacher: answers that call the attention of a library. They cost no points."""

import ast

from attngrade.piece import Piece

LIBRARY = {
    "MultiheadAttention",
    "flex_attention",
    "multi_head_attention_forward",
    "scaled_dot_product_attention",
}


def library_attention(pieces: list[Piece]) -> tuple[str, ...]:
    """A sentence for each answer that uses such a function, directly or through names that it uses."""
    given = [(piece.number, name) for piece in pieces for name in sorted(piece.answers)]
    bound = {name: statement for piece in pieces for name, statement in piece.bound.items()}
    notes = []
    for number, answer in given:
        if found := ", ".join(sorted(_library_names(answer, bound))):
            notes.append(
                f"The answer {answer} in cell {number} uses a library's attention: {found}."
            )
    return tuple(notes)


def _library_names(answer: str, bound: dict[str, ast.stmt]) -> set[str]:
    """The library's names in the statement that binds the answer, and in those that bind the names used there."""
    found, seen, left = set(), set(), {answer}
    while left := (left & bound.keys()) - seen:
        seen |= left
        nodes = [node for name in left for node in ast.walk(bound[name])]
        left = {node.id for node in nodes if isinstance(node, ast.Name)}
        found |= left - bound.keys()  # unbound names come from `import *`
        found |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        found |= {node.name for node in nodes if isinstance(node, ast.alias)}
    return found & LIBRARY
