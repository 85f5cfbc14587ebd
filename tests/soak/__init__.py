"""Random plays that run as long as one likes: `make soak MINUTES=n`.

A component is a module here with a function `play(seed) -> int`: it plays one script that follows from the seed alone,
raises AssertionError with what it takes to play it again, and returns how many things it tried (statements, scripts,
interrupts, kills). The plain tests call the same functions with a few fixed seeds; `__main__.py` runs them for minutes.
"""
