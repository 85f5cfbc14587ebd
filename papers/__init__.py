"""The papers' experiments: tables and figures of the papers behind panewise, reproduced with panewise.

A folder holds what belongs to one paper: its experiments, and the algorithms that only those compare ours with. The
package `panewise` imports nothing from here. `python -m papers NAME` runs an experiment, and so does
`panewise bench papers-NAME`; `experiments.py` lists them.
"""
