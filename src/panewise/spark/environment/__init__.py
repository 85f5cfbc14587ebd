"""What surrounds a pipeline: the Spark session, its data sources, and the pipeline's folder."""
