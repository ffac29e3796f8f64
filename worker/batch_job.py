"""Runs the jobs of queue `batch`: evaluations and predictions."""

from service.db.tables import Job
from service.training.repository import EVALUATE, Claim
from worker.evaluation_job import Evaluating
from worker.heart import Heart
from worker.prediction_job import Predicting


class BatchJob(Evaluating, Predicting):
    """Does what the type of a job says."""

    def work(self, job: Job, claim: Claim, heart: Heart) -> None:
        if job.type == EVALUATE:
            self.evaluate(job, claim, heart)
        else:
            self.predict(job, claim, heart)
