"""States without a fixed size over slices: bags of values, distinct counts, frequent values, sketches."""
