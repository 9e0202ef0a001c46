"""Run studies: make the plan, do its steps, write the report."""

import time
from collections.abc import Sequence

from knnmt.progress import progress
from knnmt.study.lab import Lab
from knnmt.study.plan import Plan
from knnmt.study.setup import Setup
from knnmt.study.studies import Study


def plan_studies(studies: Sequence[Study], setup: Setup, lab: Lab) -> Plan:
    """The steps that these studies still need."""
    return Plan.of((step for study in studies for step in study.steps(setup)), lab)


def run_plan(plan: Plan, lab: Lab) -> None:
    """Do all steps. After an interruption, a new plan has only those that are left."""
    with progress("Study", total=max(plan.seconds, 1), unit="steps") as meter:
        for number, planned in enumerate(plan.steps, start=1):
            step = planned.step
            meter.status(f"{number} of {len(plan.steps)}: {step.title}")
            lab.work.directory(step).mkdir(parents=True, exist_ok=True)
            start = time.process_time()
            lab.work.keep(step, step.run(lab), time.process_time() - start)
            meter.advance(planned.seconds, units=1)
