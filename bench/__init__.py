"""Benchmarks: every figure that README or the documentation states is printed by `python -m bench`.

A benchmark is a module with a function `run(quick) -> Report`. It measures in processes of its own, pinned to one core,
so that figures do not depend on what ran before; it compares answers before it compares speed; and it states its aims
and whether they are met. `quick` makes it short, for tests: then the figures mean little, the answers all the same.
"""
