"""The contenders, in the order of the table."""

from __future__ import annotations

from benchmarks.contenders import days, one_process, ours, scikit_learn, spark_only
from benchmarks.contenders.base import Contender

CONTENDERS: dict[str, Contender] = {
    contender.name: contender
    for module in (ours, scikit_learn, spark_only, one_process, days)
    for contender in module.CONTENDERS
}
