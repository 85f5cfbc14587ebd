"""Operators take Arrow batches and return results. They restart from a snapshot and do not know their host.

    family         periodic aggregates; shared_fold folds rows once for several families
    continuous     windows without SLIDE
    row_windows    count windows with SLIDE, and periodic queries without aggregates
    deltas         plans over several inputs; joins has the window join
    shared_core    joins and DISTINCT that several queries share
    once           one-time queries
    held           rows and values that operators hold

The modules of this folder are parts that several of them use.
"""
