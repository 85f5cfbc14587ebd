"""Scalar expressions of a plan: evaluated on Arrow batches, printed as Spark SQL, brought to one form."""

from typing import TYPE_CHECKING

from panewise.faces import face

if TYPE_CHECKING:
    from panewise.plan.expressions.evaluate import evaluate as evaluate
    from panewise.plan.expressions.spark_sql import to_spark_sql as to_spark_sql

__getattr__, __dir__ = face(__name__, {"evaluate": "evaluate", "to_spark_sql": "spark_sql"})
