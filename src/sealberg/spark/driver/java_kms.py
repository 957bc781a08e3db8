"""The KMS client of a catalog that is a class of Java: the JVM asks which class it is, and then for jobs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, Self

from sealberg.keys.kms.java_class import Job, Outcome, desk_of, java_class
from sealberg.spark.protocol.kms import DescribeKms, KmsDescription, KmsJob, ServeKms

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

PATIENCE_S: Final = 5.0  # how long a request waits for a job: then a connection that is gone is noticed


class JavaKms:
    """Hands jobs to the JVM, and outcomes to those who wait for them. Each thread of the server has one connection."""

    def __init__(self, impl: str, catalog: Catalog) -> None:
        self._description = KmsDescription(impl, {name: str(value) for name, value in catalog.properties.items()})
        self._desk = desk_of(catalog.properties)
        self._desk.open()
        self._under_way: dict[int, Job] = {}  # by the thread that has answered with the job

    @classmethod
    def of(cls, catalog: Catalog) -> Self | None:
        impl = java_class(catalog.properties)
        return None if impl is None else cls(impl, catalog)

    def describe(self, _: DescribeKms) -> KmsDescription:
        return self._description

    def serve(self, request: ServeKms) -> KmsJob:
        thread = threading.get_ident()
        done = self._under_way.pop(thread, None)
        if done is not None:
            told = request.outcome
            lost = Outcome(failure="no outcome: its connection was lost")
            done.outcome.set_result(lost if told is None else Outcome(told.key, told.wrapped, told.failure))
        job = self._desk.next(PATIENCE_S)
        if job is None:
            return KmsJob("none")
        self._under_way[thread] = job
        return KmsJob(job.act, job.master_key_id, job.content)
