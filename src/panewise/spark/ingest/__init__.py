"""Sources on Spark: their streaming DataFrames, the inbox of pushed rows, and how a worker decodes rows."""
