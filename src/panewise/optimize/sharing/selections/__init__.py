"""What selections and groupings have in common.

`selections` brings a WHERE to sets of values (`value_sets`), `regions` turns selections into bit masks, and `covers`
finds selections whose states give those of another. `roll_up` is for groupings, and `core_folds` for queries over a
core.
"""
