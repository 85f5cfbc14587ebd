"""Reports of what is shared, as data and in words. EXPLAIN PLAN and the drawn weave are made from them."""
