"""Pictures of ideas, drawn by code: a file for each kind, all of them to be had from here."""

from attncourse.show.diagrams.boxes import STEPS, arrow, blank, box, five_steps
from attncourse.show.diagrams.curves import samples
from attncourse.show.diagrams.heads import head_sharing_diagram, multi_head_diagram
from attncourse.show.diagrams.tables import one_row, score_table
from attncourse.show.diagrams.vectors import ROLES, arcs, arrows

__all__ = [
    "ROLES",
    "STEPS",
    "arcs",
    "arrow",
    "arrows",
    "blank",
    "box",
    "five_steps",
    "head_sharing_diagram",
    "multi_head_diagram",
    "one_row",
    "samples",
    "score_table",
]
