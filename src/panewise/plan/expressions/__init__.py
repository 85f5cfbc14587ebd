"""Scalar expressions of a plan: evaluated on Arrow batches, printed as Spark SQL, brought to one form.

`evaluate` compiles an expression to a function of a batch; its kernels are in the modules `evaluate_...`, on `vectors`,
and `text_sizes` limits the texts that they make. `spark_sql` prints the same meaning for Spark. `canonical` gives equal
expressions one form, `written_names` the text that is stored of them. `conjunctions` and `join_condition` divide
conditions.
"""

from typing import TYPE_CHECKING

from panewise.faces import face

if TYPE_CHECKING:
    from panewise.plan.expressions.evaluate import evaluate as evaluate
    from panewise.plan.expressions.spark_sql import to_spark_sql as to_spark_sql

__getattr__, __dir__ = face(__name__, {"evaluate": "evaluate", "to_spark_sql": "spark_sql"})
