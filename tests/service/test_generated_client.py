"""A client that openapi-python-client generates from the service's own document calls every operation."""

import importlib
import sys
import uuid
from collections.abc import Iterator
from http import HTTPStatus
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
from openapi_python_client import generate
from openapi_python_client.config import Config, ConfigFile, MetaType

from tests.running import RunningService

pytestmark = pytest.mark.slow
PACKAGE = "generated_ctp_client"


class Generated:
    """The generated package: calls operations by their id and remembers which."""

    def __init__(self, url: str) -> None:
        package = importlib.import_module(PACKAGE)
        self.models: ModuleType = importlib.import_module(f"{PACKAGE}.models")
        self.file = importlib.import_module(f"{PACKAGE}.types").File
        # The service is open: nobody has made a key yet.
        self.client = package.Client(base_url=url, timeout=httpx.Timeout(240))
        folder = Path(str(package.__file__)).parent / "api"
        self.modules = {path.stem: path for path in folder.glob("*/*.py") if path.stem != "__init__"}
        self.called: set[str] = set()

    def call(self, operation: str, *path: str, status: int = 200, **options: Any) -> Any:
        """What the answer is read as; None where it is bytes."""
        self.called.add(operation)
        place = self.modules[operation]
        module = importlib.import_module(f"{PACKAGE}.api.{place.parent.name}.{operation}")
        answer = module.sync_detailed(*path, client=self.client, **options)
        assert answer.status_code == HTTPStatus(status), (operation, answer.content[:500])
        return answer.content if answer.parsed is None else answer.parsed

    def body(self, kind: str, /, **values: Any) -> Any:
        return getattr(self.models, kind).from_dict(values)


@pytest.fixture(scope="module")
def generated(service: RunningService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Generated]:
    folder = tmp_path_factory.mktemp("generated")
    document = folder / "openapi.json"
    document.write_bytes(httpx.get(f"{service.url}/openapi.json").content)
    given = ConfigFile(post_hooks=[])
    config = Config.from_sources(given, MetaType.NONE, document, "utf-8", False, folder / PACKAGE)
    # An archive is sent as a form, too, and received as bytes: the generator knows no zip.
    assert {str(error.detail or "").partition("application/")[2][:3] for error in generate(config=config)} <= {"zip"}
    sys.path.insert(0, str(folder))
    made = Generated(service.url)
    try:
        yield made
    finally:
        made.client.get_httpx_client().close()
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
            del sys.modules[name]


def test_it_calls_every_operation(generated: Generated, client: httpx.Client) -> None:
    call, body, name = generated.call, generated.body, f"g-{uuid.uuid4().hex[:8]}"
    assert call("healthz").to_dict() == {"status": "ok"}
    assert call("readyz").status == "ok"
    assert "ctp_requests_total" in str(call("get_metrics"))
    assert call("list_formats").items

    kb = call("create_kb", status=201, body=body("KbCreate", name=name, facts=[["a", "p", "b"], ["b", "p", "c"]]))
    assert (kb.name, kb.num_facts) == (name, 2)
    assert kb.id in [one.id for one in call("list_kbs", limit=1000).items]
    assert call("get_kb", name).id == kb.id
    assert [fact.subject for fact in call("list_facts", name, predicate="p").items] == ["a", "b"]
    assert call("list_predicates", name).items[0].name == "p"
    assert len(call("list_entities", name).items) == 3
    assert call("get_neighbourhood", name, entity="b").items
    assert b"a\tp\tb" in str(call("export_kb", name)).encode()
    assert call("list_presets", kb="family").items

    config = {"method": "rules", "search": []}
    started = call("train", status=202, wait=200, body=body("TrainRequest", kb="family", name=name, config=config))
    model, job = started.model, started.job
    assert (model.status, call("get_job", job.id).status) == ("ready", "succeeded")
    assert job.id in [one.id for one in call("list_jobs").items]
    assert "succeeded" in str(call("follow_job", job.id))
    assert call("cancel_job", job.id, status=409).code == "job_finished"
    assert call("get_model", name).id == model.id
    assert model.id in [one.id for one in call("list_models", name=name).items]
    call("list_metrics", name)
    call("list_checkpoints", name)
    rule = call("list_rules", name).items[0]
    assert call("list_groundings", name, rule.id).items
    assert call("warm_model", name).model_id == model.id
    assert call("set_tags", name, body=body("TagsIn", tags={"made": "here"})).tags.to_dict() == {"made": "here"}
    assert call("set_alias", name, "best", body=body("AliasIn", version=1)).aliases == ["best"]
    call("delete_alias", name, "best", status=204)

    goal = {"subject": "rick", "predicate": "grandparent", "object": None}
    answers = call("query", body=body("QueryRequest", model=name, goal=goal))
    assert answers.answers[0].proofs[0].tree.children
    assert answers.answers[0].score <= 1
    goals = [goal, {"subject": "nobody", "predicate": "grandparent", "object": None}]
    first, second = call("query", body=body("QueryRequest", model=name, goals=goals)).results
    assert first.answers[0].object_ == answers.answers[0].object_
    assert second.problem.code == "unknown_symbol"
    where = ["parent(rick, ?x)", {"subject": "?x", "predicate": "parent", "object": "?y"}]
    [found] = call("query", body=body("QueryRequest", model=name, where=where, top_k=1)).answers
    assert found.bindings.to_dict() == {"?x": "beth", "?y": "morty"}
    fact = {"subject": "rick", "predicate": "grandparent", "object": "morty"}
    explained = call("explain", body=body("ExplainRequest", model=name, fact=fact, threshold=0.05))
    assert explained.why.proofs[0].tree.children
    assert explained.what_would_change_it.facts

    archive = generated.file(
        payload=BytesIO(call("export_model", name)), file_name="m.zip", mime_type="application/zip"
    )
    form = generated.models.ImportModelFilesBody(file=archive, name=f"{name}-again")
    assert call("import_model", status=201, body=form).name == f"{name}-again"
    assert call("compare_models", ids=f"{name},{name}-again", questions=0).models

    asked = body("EvaluationRequest", model=name)
    assert call("create_evaluation", status=422, body=asked).code == "no_such_split"
    small = {"method": "distmult", "search": [], "epochs": 1}
    other = call("train", status=202, wait=200, body=body("TrainRequest", kb="nations", name=f"{name}-n", config=small))
    asked = body("EvaluationRequest", model=other.model.id, limit=5)
    evaluation = call("create_evaluation", status=202, wait=200, body=asked)
    assert call("get_evaluation", evaluation.id).num_items == 5
    assert evaluation.id in [one.id for one in call("list_evaluations").items]
    call("delete_evaluation", evaluation.id, status=204)

    wanted = body("PredictionRequest", model=name, predicate="grandparent", format="csv", min_score=0.0)
    prediction = call("create_prediction", status=202, wait=200, body=wanted)
    assert call("get_prediction", prediction.id).num_rows > 0
    assert prediction.id in [one.id for one in call("list_predictions").items]
    assert "subject,predicate,object" in str(call("download_prediction", prediction.id))
    call("delete_prediction", prediction.id, status=204)

    call("delete_model", f"{name}@1", status=204)
    call("delete_kb", name, status=204)
    operations = client.get("/openapi.json").json()["paths"].values()
    assert generated.called == {one["operationId"] for methods in operations for one in methods.values()}
