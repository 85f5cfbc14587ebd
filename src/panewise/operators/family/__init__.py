"""Families: periodic aggregates over one stream with one selection and grouping, whatever their windows.

    family.py             rows in, reports out; owns all parts below, and nobody else assigns them
    timeline.py           where edges lie, what is held from where, when a member's reports begin: every such decision
    member.py             what is known of one query of a family; members.py has all of them, schedule.py as columns
    groups.py             group ids of rows, key columns of reports, pools of strings; forgetting.py lets idle ones go
    slice_store.py        the contract of slices; dense_slices.py and sparse_slices.py fulfil it
    tree.py               a tree of the weave: longer slices for some members, made of the store's own
    reporting.py          the contract of reports; dense_reporting.py and sparse_reporting.py write them
    partials.py           open slices as a record batch on its way to another family, and back

A module imports only what stands below it; the order of the lists above is not that order:

    schedule -> member -> members -> timeline -> groups -> reporting -> slice_store -> tree -> stores -> family
"""
