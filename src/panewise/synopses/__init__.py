"""Synopses: structures over the partials of closed slices that answer windows, one technique a file."""
