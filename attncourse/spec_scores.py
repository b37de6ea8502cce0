"""The definitions of scores that know more, as literal Python loops: relative positions, neighbours, other heads.

As in `attncourse.spec`: one loop for each index of the formula, nothing clever, float64 for comparing.
"""
