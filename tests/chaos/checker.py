"""All checks of a round, when it is over.

check(round) ──> Verdict: figures, and violations of what is promised
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaos import contents, facts, history, orphans, outcomes
from chaos.plan import seed_rows
from chaos.verdict import Verdict

if TYPE_CHECKING:
    from chaos.opinions import SparkDriver
    from chaos.round import Round


def check(settings: Round, spark: SparkDriver | None = None) -> Verdict:
    verdict = Verdict()
    past = history.read(settings)
    done = outcomes.read_all(settings)
    outcomes.name_those_of_spark(settings, past, done)
    seed = {row.k: row for row in seed_rows(settings.owners)}
    states = outcomes.expected_states(past, done, seed, verdict)
    outcomes.check(settings, past, done, states, verdict)
    facts.check(past, verdict)
    contents.check(settings, done, states, verdict)
    orphans.check(settings, past, done, verdict)
    if spark is not None:
        spark.compare(past, states, verdict)
    return verdict
