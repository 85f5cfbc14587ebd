"""Patroumpas and Sellis 2011: windows that contain each other, arranged in chains."""
