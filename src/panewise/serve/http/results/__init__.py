"""Results of queries, numbered, in memory and in files.

`result_log` is the whole: a `result_series` for each query, whose `numbered_rows` are held in memory or mapped from
files. `result_segments` writes the files, `result_loading` reads them at a start, `memory_limit` chooses what leaves
the memory. `row_json` writes rows as JSON.
"""
