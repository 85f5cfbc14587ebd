"""Plans over several inputs: operators whose inputs and outputs are changes of relations."""
