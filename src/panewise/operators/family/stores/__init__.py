"""Stores: the open and closed slices of a family.

    slice_store.py      the contract of stores
    dense_slices.py     every group has a place in every slice; its closed slices are in closed_slices.py
    sparse_slices.py    every slice lists the groups it touches; cursor.py slides a window over such slices
    tree.py             longer slices for some members, made of a dense store's slices

A family has one store at a time. It begins with a dense one.
"""
