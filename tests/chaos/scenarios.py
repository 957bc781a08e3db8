"""The rounds that are played: in CI each for some seconds, by `make chaos` over and over with new seeds.

SCENARIOS      name -> which catalog, which operations, which faults
play(name, seed, seconds, folder) -> Verdict
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from chaos import checker, director
from chaos.director import Fault, kill, stop
from chaos.opinions import driver
from chaos.plan import KINDS, ROLLBACKS, SPEC_CHANGES
from chaos.round import Round
from chaos.servers import PLACES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from chaos.verdict import Verdict

MERGE_ON_READ: Final = {f"write.{what}.mode": "merge-on-read" for what in ("delete", "update", "merge")}
WITHOUT_LOCKS: Final = {"engine.hive.lock-enabled": "false"}
# Spark takes seconds for a statement, and plans it with the columns of its beginning.
WITH_SPARK: Final = {
    "append": 3,
    "delete": 4,
    "upsert": 2,
    "overwrite": 1,
    "tag": 1,
    "branch": 1,
    "expire": 1,
    "read": 1,
}
EXPIRY: Final = {"append": 2, "delete": 6, "upsert": 3, "overwrite": 1, "read": 1, "expire": 6}
KILLS: Final = (Fault("killed", 2.5, kill), Fault("stopped", 4.0, stop))


@dataclass(frozen=True)
class Scenario:
    """What a round has, its seed and time aside."""

    place: str = "sqlite"
    workers: int = 5
    kinds: Mapping[str, int] = field(default_factory=lambda: dict(KINDS))
    table: Mapping[str, str] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    hold_s: float = 1.0
    storage: Mapping[str, float] = field(default_factory=dict)
    lost: float = 0.0
    kms: float = 0.0
    clocks: tuple[float, ...] = (0.0,)
    spark: bool = False


SCENARIOS: Final[Mapping[str, Scenario]] = {
    # Writers that hold what they planned while others commit, merge manifests and expire what lies between.
    "kills": Scenario(workers=6, table=MERGE_ON_READ, faults=KILLS),
    # What lies between plan and commit is expired meanwhile; no manifest is merged.
    "expiry": Scenario(kinds=EXPIRY, table={**MERGE_ON_READ, "commit.manifest.min-count-to-merge": "100"}, hold_s=3.0),
    "rollbacks": Scenario(kinds=ROLLBACKS, faults=KILLS),
    "specs": Scenario(kinds=SPEC_CHANGES, table=MERGE_ON_READ),
    "lost-answers": Scenario(lost=0.15, faults=(Fault("killed", 4.0, kill),)),
    "storage": Scenario(
        table=MERGE_ON_READ,
        storage={"create": 0.01, "write": 0.005, "close": 0.01, "delete": 0.1, "open": 0.002},
    ),
    "disk": Scenario(place="small-disk", table=MERGE_ON_READ),
    "kms": Scenario(kms=0.3, faults=(Fault("killed", 2.0, kill),)),  # each process unwraps its KEKs anew
    "clocks": Scenario(workers=4, clocks=(0.0, 120.0, -120.0, 0.0)),
    "postgresql": Scenario(place="postgresql", table=MERGE_ON_READ, faults=(Fault("killed", 5.0, kill),)),
    # Without Hive's locks, which outlive a process that was killed until the metastore gives them up.
    "hive": Scenario(place="hive", workers=4, table=WITHOUT_LOCKS, faults=(Fault("killed", 6.0, kill),)),
    "rest": Scenario(place="rest", workers=4, table=MERGE_ON_READ, faults=(Fault("killed", 6.0, kill),)),
    # Spark through Iceberg Java's catalog and ours in turns, Python workers beside it, and all three read the end.
    "spark-java": Scenario(place="calm-hive", workers=2, kinds=WITH_SPARK, table=MERGE_ON_READ, hold_s=3.0, spark=True),
    "spark-sql": Scenario(workers=2, kinds=WITH_SPARK, hold_s=3.0, faults=(Fault("killed", 5.0, kill),), spark=True),
}


def play(name: str, seed: int, seconds: float, folder: Path, say: Callable[[str], None] = print) -> Verdict:
    """One round of a scenario, checked."""
    say(f"chaos: {name}, seed {seed}, {seconds:g} s; again with: make chaos CHAOS_ARGS='--only {name} --seed {seed}'")
    scenario = SCENARIOS[name]
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        place = stack.enter_context(PLACES[scenario.place](folder))
        settings = Round(
            name,
            seed,
            str(folder),
            place.properties,
            workers=scenario.workers,
            seconds=seconds,
            kinds=dict(scenario.kinds),
            table=dict(scenario.table),
            hold_s=scenario.hold_s,
            storage=dict(scenario.storage),
            lost=scenario.lost,
            kms=scenario.kms,
            clocks=scenario.clocks,
            spark=scenario.spark,
        )
        settings.make()
        spark = stack.enter_context(driver(settings, place.port)) if scenario.spark else None
        if spark is not None:
            spark.go()
        struck = director.play(settings, (*scenario.faults, *place.faults))
        if spark is not None:
            spark.end()
        verdict = checker.check(settings, spark)
    verdict.figures = {"faults": dict(struck), **verdict.figures}
    return verdict
