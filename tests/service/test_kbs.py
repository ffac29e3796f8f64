"""KBs over HTTP, against the started service."""

import httpx
import pytest

pytestmark = pytest.mark.slow


def test_samples_are_listed_on_a_first_start(client: httpx.Client) -> None:
    samples = {kb["name"]: kb for kb in client.get("/kbs").json()["items"] if kb["sample"]}
    countries = {"countries-s1", "countries-s2", "countries-s3"}
    assert set(samples) == {"family", "nations", "umls", "kinship", *countries}
    for name in countries:
        assert samples[name]["splits"]["test"] == 24, "the regions of the test countries"


def test_the_same_content_under_the_same_name_is_the_same_kb(client: httpx.Client) -> None:
    body = {"name": "twice", "facts": [["a", "p", "b"], ["a", "p", "b"], ["b", "p", "c"]]}
    first, second = client.post("/kbs", json=body), client.post("/kbs", json=body)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json()
    assert first.json()["num_facts"] == 2
    assert first.json()["warnings"] == ["1 duplicate facts were dropped from train"]


def test_other_content_under_the_same_name_is_refused(client: httpx.Client) -> None:
    client.post("/kbs", json={"name": "taken", "facts": [["a", "p", "b"]]})
    answer = client.post("/kbs", json={"name": "taken", "facts": [["a", "p", "c"]]})
    assert (answer.status_code, answer.json()["code"]) == (409, "kb_exists")


def test_files_by_split_are_stored_and_can_be_filtered(client: httpx.Client) -> None:
    files = {"train": ("t.tsv", b"a\tp\tb\nb\tq\tc\n"), "test": ("s.tsv", b"a\tq\tz\n")}
    kb = client.post("/kbs", data={"name": "split"}, files=files).json()
    assert kb["splits"] == {"train": 2, "test": 1}
    assert kb["warnings"] == ["1 entities of test do not occur in train, e.g. 'z'"]
    facts = client.get("/kbs/split/facts", params={"predicate": "q"}).json()["items"]
    assert facts == [
        {"subject": "a", "predicate": "q", "object": "z", "split": "test"},
        {"subject": "b", "predicate": "q", "object": "c", "split": "train"},
    ]


def test_lists_come_in_pages(client: httpx.Client) -> None:
    first = client.get("/kbs/nations/facts", params={"limit": 3}).json()
    second = client.get("/kbs/nations/facts", params={"limit": 3, "cursor": first["next_cursor"]}).json()
    both = client.get("/kbs/nations/facts", params={"limit": 6}).json()
    assert first["items"] + second["items"] == both["items"]


def test_the_name_of_a_sample_is_taken(client: httpx.Client) -> None:
    sample = client.get("/kbs/family").json()
    answer = client.post("/kbs", json={"name": "family", "facts": [["a", "p", "c"]]})
    assert (answer.status_code, answer.json()["code"]) == (409, "kb_is_sample")
    assert "choose another name" in answer.json()["detail"]
    file = {"file": ("family.tsv", client.get("/kbs/family/export").content)}
    again = client.post("/kbs", data={"name": "family"}, files=file)
    assert (again.status_code, again.json()) == (200, sample)
    assert client.get("/kbs/family").json() == sample
