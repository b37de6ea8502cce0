"""Pictures of ideas, drawn by code: a file for each kind, all of them to be had from here."""

from attncourse.show.diagrams.boxes import STEPS, arrow, blank, box, five_steps
from attncourse.show.diagrams.heads import head_sharing_diagram, multi_head_diagram

__all__ = [
    "STEPS",
    "arrow",
    "blank",
    "box",
    "five_steps",
    "head_sharing_diagram",
    "multi_head_diagram",
]
