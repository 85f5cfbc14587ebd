"""Tables on Spark: their versions, which version a micro-batch sees, and the readers of their connectors."""
