"""Figures of the papers, reproduced: one module per figure or chapter, run by `panewise bench NAME`."""
