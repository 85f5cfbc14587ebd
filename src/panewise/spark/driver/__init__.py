"""A run in the driver: its Spark query, its inbox, and the threads that post rows and punctuations."""
