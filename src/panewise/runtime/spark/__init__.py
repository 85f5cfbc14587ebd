"""The same operators on Spark: stages, state, the result log and the pipeline's face."""
