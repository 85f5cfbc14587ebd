"""Rows with lifetimes on disk: an index of Parquet files by key, insertion and expiration time."""
