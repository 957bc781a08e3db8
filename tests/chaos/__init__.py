"""Many processes, many faults, one table: nothing acknowledged may be lost, nothing that failed may be seen.

    plan       what each worker does, by seed alone            ──┐
    worker     does it in a process of its own, and logs         │  a round: `round.play`
    storage, kms, clock, answers    faults inside a worker       │
    director   faults from outside: kills, stops, restarts     ──┘
    history    every committed version of the table            ──┐
    model      the table as a dictionary                         │  `checker.check`: figures and violations
    facts, orphans, opinions     what must hold of it          ──┘
    scenarios  the rounds of CI, and of hours: python -m chaos
    removals   every deleting act in random order, beside tables and objects that must stay
    job_kills  jobs on whole tables whose driver is killed: job_cells, job_process, job_driver, python_daemon

A seed gives the operations of each worker and the faults inside it exactly. The order in which processes run is the
machine's, so that a replay meets the same operations and the same faults, at about the same times.
"""
