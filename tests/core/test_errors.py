"""What somebody may have meant by a name."""

import random
import time

import pytest

from ctp_core.errors import COMPARED_CHARACTERS, nearest

URI = "http://an.example.org/some/rather/long/path/to/the/resources/of/it/"


def test_of_few_names_any_place_may_be_wrong() -> None:
    assert nearest("Grandparnt", ["parent", "grandparent", "uncle"])[0] == "grandparent"
    assert nearest("randparent", ["parent", "grandparent", "uncle"])[0] == "grandparent"
    assert nearest("zzz", ["parent", "grandparent"]) == []


@pytest.mark.parametrize("beginning", ["entity_", URI])
@pytest.mark.parametrize("count", [200, 5000])
def test_of_many_names_that_begin_alike_the_right_one_is_found(beginning: str, count: int) -> None:
    known = [f"{beginning}{number:05d}_of_{count}" for number in range(count)]
    assert len(URI) > COMPARED_CHARACTERS
    assert known[123] in nearest(f"{beginning}00123_off_{count}", known)


@pytest.mark.slow
@pytest.mark.parametrize("length", [64, 512])
@pytest.mark.parametrize("count", [300, 5000])
def test_the_worst_names_take_a_bounded_time(length: int, count: int) -> None:
    """Two letters in any order: nothing that is cheap to compute tells these names apart."""
    rng = random.Random(0)
    known = ["".join(rng.choices("ab", k=length)) for _ in range(count)]
    asked = ["".join(rng.choices("ab", k=length)) for _ in range(3)]
    began = time.thread_time()
    for name in asked:
        nearest(name, known)
    assert (time.thread_time() - began) / len(asked) < 0.5
