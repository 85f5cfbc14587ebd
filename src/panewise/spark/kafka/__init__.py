"""Kafka without a jar: a Python data source on confluent-kafka, and what it shares with the sink."""
