"""Shein and Chrysanthis 2020: weaving many queries, against the optimum and against running the plans."""
