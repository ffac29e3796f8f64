"""Calls that wait for a job."""

from pathlib import Path

import httpx
import pytest

from service.errors import TooMany
from service.http.places import waiting
from service.local.cluster import Cluster


def test_a_tenant_has_so_many_places_and_gets_them_back() -> None:
    places = waiting(2)
    with places.place("a"):
        with places.place("a"), places.place("b"):
            with pytest.raises(TooMany, match="2 calls already wait for jobs"):
                places.take("a")
            with places.place("b"):
                pass
        with places.place("a"):
            pass
    places.stop()


@pytest.mark.slow
def test_more_waiting_calls_than_there_are_places_get_a_429(tmp_path: Path) -> None:
    with Cluster(tmp_path, {"max_waiting_calls": "1"}) as cluster:
        cluster.start("api")  # a job that no worker takes is waited for as well
        check_places(httpx.Client(base_url=cluster.url(), timeout=60))


def check_places(client: httpx.Client) -> None:
    with client:
        body = {"kb": "nations", "config": {"method": "proofs", "epochs": 5000}}
        job = client.post("/train", json=body).json()["job"]["id"]
        with client.stream("GET", f"/jobs/{job}/events") as events:
            lines = events.iter_lines()
            next(lines)
            for path in (f"/jobs/{job}?wait=5", f"/jobs/{job}/events"):
                answer = client.get(path)
                assert (answer.status_code, answer.json()["code"]) == (429, "too_many_waiting_calls")
            assert client.post("/train", params={"wait": 5}, json=body).status_code == 429
            assert len(client.get("/jobs").json()["items"]) == 1, "what is refused is not begun"
            assert client.get(f"/jobs/{job}").status_code == 200
            assert next(lines) is not None
        client.post(f"/jobs/{job}/cancel")
        assert client.get(f"/jobs/{job}?wait=5").json()["status"] == "cancelled"
