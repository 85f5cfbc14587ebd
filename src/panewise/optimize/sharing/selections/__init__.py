"""What selections and groupings have in common: regions of rows, covers, roll-ups."""
