"""Pictures of ideas, drawn by code: a file for each kind, all of them to be had from here."""

from attncourse.show.diagrams.blocks import next_word, norm_places, transformer_diagram
from attncourse.show.diagrams.boxes import STEPS, arrow, blank, box, five_steps
from attncourse.show.diagrams.brackets import two_orders
from attncourse.show.diagrams.card import memory_levels, roofline
from attncourse.show.diagrams.clocks import clocks, same_words, turned_pairs
from attncourse.show.diagrams.convolution import sliding_kernel
from attncourse.show.diagrams.curves import samples
from attncourse.show.diagrams.decisions import decisions
from attncourse.show.diagrams.evictions import kept_tokens
from attncourse.show.diagrams.growing_state import growing_state
from attncourse.show.diagrams.head_table import head_table
from attncourse.show.diagrams.heads import head_sharing_diagram
from attncourse.show.diagrams.hops import hop_maps, hop_strips, relay
from attncourse.show.diagrams.lengths import beyond_training, over_position
from attncourse.show.diagrams.machine_code import code_strips
from attncourse.show.diagrams.mask_tables import (
    mask_rules,
    mask_then_softmax,
    mask_too_late,
    padded_batch,
)
from attncourse.show.diagrams.memories import memories
from attncourse.show.diagrams.number_tables import kernel_tables, word_rows
from attncourse.show.diagrams.reach import cliff, receptive_field
from attncourse.show.diagrams.reshape import heads_diagram, multi_head_diagram
from attncourse.show.diagrams.ring import ring_diagram, ring_timeline, ring_visits
from attncourse.show.diagrams.score_maps import score_maps
from attncourse.show.diagrams.sentence import arcs_diagram
from attncourse.show.diagrams.strips import strips
from attncourse.show.diagrams.tables import one_row, score_table
from attncourse.show.diagrams.tile_walk import tile_walk, to_scale
from attncourse.show.diagrams.tiles import causal_tiles
from attncourse.show.diagrams.vectors import ROLES, arcs, arrows
from attncourse.show.diagrams.windows import (
    causal_and_window,
    rolling_slots,
    shifted_windows,
    window_blocks,
)

__all__ = [
    "ROLES",
    "STEPS",
    "arcs",
    "arcs_diagram",
    "arrow",
    "arrows",
    "beyond_training",
    "blank",
    "box",
    "causal_and_window",
    "causal_tiles",
    "cliff",
    "clocks",
    "code_strips",
    "decisions",
    "five_steps",
    "growing_state",
    "head_sharing_diagram",
    "head_table",
    "heads_diagram",
    "hop_maps",
    "hop_strips",
    "kept_tokens",
    "kernel_tables",
    "mask_rules",
    "mask_then_softmax",
    "mask_too_late",
    "memories",
    "memory_levels",
    "multi_head_diagram",
    "next_word",
    "norm_places",
    "one_row",
    "over_position",
    "padded_batch",
    "receptive_field",
    "relay",
    "ring_diagram",
    "ring_timeline",
    "ring_visits",
    "rolling_slots",
    "roofline",
    "same_words",
    "samples",
    "score_maps",
    "score_table",
    "shifted_windows",
    "sliding_kernel",
    "strips",
    "tile_walk",
    "to_scale",
    "transformer_diagram",
    "turned_pairs",
    "two_orders",
    "window_blocks",
    "word_rows",
]
