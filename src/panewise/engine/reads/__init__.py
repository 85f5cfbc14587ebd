"""Reads: lookups of registered queries, one-time queries at a level of isolation, and results on their way out.

lookups, past_answers       the answer of a query, now or in the past
published_answers           answers for readers beside a writer
one_group, answer_form      one group of an answer; how a query gives its answer
read_out                    results that are handed on, and count as read
window_reads                decides where a one-time query runs
one_time_query              computes the answer, over one input or several (`one_time_inputs`)
stepwise_read               long reads beside pushes: step by step,
single_step_read            or as a whole, from what was pinned (`pinned_sources`, `pinned_rows`)
read_isolation              the levels of isolation, and what became of reads
archive_reads               SELECT over archives, with conditions for their files (`archive_conditions`)
"""
