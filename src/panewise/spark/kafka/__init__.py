"""Kafka without a jar: a Python data source and a client on confluent-kafka."""
