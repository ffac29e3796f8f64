"""What jobs that ask a model share: the tenant that has waited longest is next, and the model is loaded on its KB."""

from functools import partial

import structlog
from sqlalchemy.orm import Session

from ctp_core.artifact import decode
from ctp_core.base.facts_model import FactsModel
from ctp_core.base.model import Model
from ctp_core.errors import ArtifactError
from ctp_core.kb.holdout import Holdout, hold_out
from ctp_core.kb.knowledge_base import KnowledgeBase
from ctp_core.registry import load_model
from service.db.tables import Job, ModelVersion
from service.kbs import repository as kbs
from service.kbs.whole import KbRows
from service.training import lease
from service.training.repository import BATCH, EVALUATE, Claim
from worker.device import choose_device
from worker.heart import Heart
from worker.job import JobRunner

log = structlog.get_logger()


class AskingRunner(JobRunner):
    """Runs jobs that ask a model. Whichever job a message names, the tenant that has waited longest is next."""

    rows_are_kept = False

    def claim(self, session: Session, job_id: str) -> Claim | None:
        del job_id
        return lease.claim_next(session, BATCH, self.worker, self.settings.lease_seconds)

    def crashed(self, claim: Claim, error: Exception) -> None:
        job_type = self._read(lambda session: session.get_one(Job, claim.job_id)).type
        code = "evaluation_crashed" if job_type == EVALUATE else "prediction_crashed"
        log.exception(code)  # only logged: the trace names paths of this machine
        self._fail(claim, code, f"{type(error).__name__}: {error}")

    def clean_up(self, job: Job, claim: Claim) -> None:
        """Removes nothing: the files that a lost attempt has written are those that the next one needs."""

    def _loaded(self, job: Job, claim: Claim, heart: Heart) -> tuple[Model, KnowledgeBase]:
        """The model on the KB of the job, and that KB; raises ArtifactError where the model was deleted."""
        version = self._read(lambda session: session.get_one(ModelVersion, job.model_id))
        if version.artifact is None:
            raise ArtifactError(f"model {version.name}@{version.version} was deleted before the job began")
        files = self._stored(partial(self.storage.get, version.artifact), claim, heart)
        model = load_model(decode(files), choose_device(self.settings.device))
        rows = self._read(lambda session: KbRows.of(session, kbs.pinned(session, job.kb_id)))
        is_own = rows.kb.sha256 == version.kb_sha256
        if isinstance(model, FactsModel) and is_own:
            return model, model.kb  # its files hold all splits
        kb = self._stored(partial(rows.read, self.files), claim, heart)
        if is_own and version.holdout is not None:
            kb = hold_out(kb, Holdout(**version.holdout))
        return (model.on(kb) if isinstance(model, FactsModel) else model), kb
