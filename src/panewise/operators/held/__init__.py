"""What operators hold: columns that grow, batches by slot, values of any number per group."""
