"""Tables on Spark: their versions, and which version a micro-batch sees."""
