"""What sharing did, as data and in words: EXPLAIN PLAN and the drawn weave are made of it."""
