"""Families: periodic aggregates over one stream with one WHERE and GROUP BY, whatever their windows.

    family.py             takes rows and returns reports; owns all parts below
    family_slices.py      takes rows and partials into the slices, and evicts what is not needed; stores/ holds slices
    timeline.py           where edges lie, what is held from where, and when the reports of a member begin
    member.py             one query of a family; members.py has all of them, schedule.py has them as columns
    member_trees.py       how members are divided into trees of the weave
    groups.py             group ids of rows, key columns of reports, pools of strings; eviction.py drops idle ones
    reporting.py          the contract of reporting; dense_reporting.py and sparse_reporting.py write reports
    past_reports.py       single reports of the past
    sought_windows.py     the windows that reporting asks slices for, and their answers
    partials.py           open slices as a record batch on its way to another family, and back

A module imports only modules to its left:

    schedule, member, members, timeline, groups, reporting, stores, family_slices, member_trees, family
"""
