"""Graphs from CLUTRR, JSON Lines and our own generator; isomorphism; bad data."""

import csv
import io
import json
import zipfile
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from ctp_core.benchmarks.family_graphs import EDGES, TARGETS, family_graphs, sound_compositions
from ctp_core.errors import ConfigError, DataError, ParseError
from ctp_core.kb.facts_builder import KbLimits
from ctp_core.kb.formats.clutrr import UNTYPED, numbered_clutrr, read_clutrr
from ctp_core.kb.formats.graphs_jsonl import numbered_graphs_jsonl, write_graphs_jsonl
from ctp_core.kb.graphs import graphs_kb
from ctp_core.kb.graphs_builder import BuiltGraphs, GraphsBuilder
from ctp_core.kb.isomorphism import canonical, distinct, number
from ctp_core.kb.knowledge_base import Graph
from ctp_core.symbols import Fact

ROW = {
    "story_edges": "[(0, 1), (1, 2)]",
    "edge_types": "['father', 'sister']",
    "query_edge": "(0, 2)",
    "target": "aunt",
    "genders": "Don:male,Mike:male,Dot:female",
}


def clutrr_csv(*rows: dict[str, str]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, ["", "story", *ROW])
    writer.writeheader()
    writer.writerows({"story": "a long,\nstory"} | row for row in rows)
    return text.getvalue()


def parse(*rows: dict[str, str]) -> list[Graph]:
    return [graph for _, graph in numbered_clutrr(io.StringIO(clutrr_csv(*rows)), "1.2_train.csv")]


def test_clutrr_rows_become_named_facts_with_query_and_label() -> None:
    [graph] = parse(ROW)
    facts = (Fact("Don", "father", "Mike"), Fact("Mike", "sister", "Dot"))
    assert graph == Graph(facts, "Don", "Dot", "aunt")


def test_noise_edges_without_a_type_are_read_as_facts_of_their_own() -> None:
    [graph] = parse(ROW | {"story_edges": "[(0, 1), (1, 2), (2, 3)]", "genders": ROW["genders"] + ",Pat:male"})
    assert graph.facts[2] == Fact("Dot", UNTYPED, "Pat")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"story_edges": "[]", "edge_types": "[]"}, "no facts"),
        ({"edge_types": "['a', 'b', 'c']"}, "3 edge_types for 2"),
        ({"query_edge": "?"}, "not one pair"),
        ({"query_edge": "(0, 9)"}, "node 9 has no name"),
        ({"story_edges": "[(0, 1), (1, 7)]"}, "node 7 has no name"),
        ({"target": " "}, "target is empty"),
        ({"genders": "Don:male,Mike:male,Dot:female,Eve:female", "query_edge": "(0, 3)"}, "'Eve', which is in no fact"),
        ({"edge_types": "['father', sister]"}, "edge_types is .* not a list of names"),
        ({"edge_types": "['father', 3]"}, "not a list of names"),
        ({"edge_types": "['father', '']"}, "a name is empty"),
        ({"edge_types": "['father', None]"}, "not a list of names"),
        ({"story_edges": "[(0, 1), (1, x)]"}, "story_edges is .* not a list of pairs"),
        ({"story_edges": "[(0, 1), (1, 2, 0)]"}, "not a list of pairs"),
        ({"story_edges": "[(0, 1), (1, -1)]"}, "not a list of pairs"),
        ({"story_edges": "(0, 1), (1, 2)"}, "not a list of pairs"),
        ({"story_edges": "[" * 5000}, "not a list of pairs"),
        ({"query_edge": "[(0, 1), (1, 2)]"}, "not one pair"),
        ({"genders": "Don:male,Mike,Dot:female"}, "a name is empty"),
        ({"target": "a\x00b"}, "NUL|NUL character"),
        ({"target": "a" * 513}, "longer than 512"),
    ],
)
def test_a_bad_row_names_file_line_and_reason(change: dict[str, str], reason: str) -> None:
    with pytest.raises(ParseError, match=reason) as error:
        parse(ROW, ROW | change)
    assert (error.value.file, error.value.line) == ("1.2_train.csv", 5)  # stories span two lines


def test_reading_leaves_the_limits_of_the_csv_module_alone() -> None:
    before = csv.field_size_limit()
    parse(ROW)
    assert csv.field_size_limit() == before
    with pytest.raises(ParseError, match="field larger than field limit"):
        parse(ROW | {"story_edges": " " * (before + 1)})


def test_a_file_that_is_not_utf8_names_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "1.2_train.csv").write_bytes(clutrr_csv(ROW).encode() + b"\xff\n")
    with pytest.raises(ParseError, match="not UTF-8") as error:
        read_clutrr(tmp_path)
    assert (error.value.file, error.value.line) == ("1.2_train.csv", 4)


def test_a_file_of_another_format_is_refused_at_its_first_line() -> None:
    with pytest.raises(ParseError, match="line 1: not a CLUTRR file: no column story_edges"):
        list(numbered_clutrr(["a,b\n", "1,2\n"], "x.csv"))


def test_zip_and_folder_read_the_same(tmp_path: Path) -> None:
    files = {
        "1.2,1.3_train.csv": clutrr_csv(ROW, ROW),
        "1.10_test.csv": clutrr_csv(ROW),
        "1.4_test.csv": clutrr_csv(ROW),
    }
    folder, archive = tmp_path / "folder", tmp_path / "data.zip"
    folder.mkdir()
    with zipfile.ZipFile(archive, "w") as packed:
        for name, content in (files | {"config.json": "{}"}).items():
            packed.writestr(name, content)
            (folder / name).write_text(content)
    tasks = read_clutrr(archive)
    assert tasks == read_clutrr(folder)
    assert [(task.split, task.lengths, len(task.graphs)) for task in tasks] == [
        ("train", (2, 3), 2),
        ("test", (4,), 1),
        ("test", (10,), 1),
    ]


def test_what_is_no_data_set_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "bad.zip").write_bytes(b"not a zip")
    for path, reason in (
        (tmp_path / "bad.zip", "not a zip"),
        (tmp_path / "none", "no CLUTRR data"),
        (tmp_path, "no CLUTRR tr"),
    ):
        with pytest.raises(DataError, match=reason):
            read_clutrr(path)


def test_graphs_survive_json_lines() -> None:
    graphs = [*family_graphs(5, (2, 3), seed=0), Graph((Fact("a", "p", "é\n"),), "a", "é\n", None)]
    assert list(numbered_graphs_jsonl(write_graphs_jsonl(graphs), "g.jsonl")) == list(enumerate(graphs, start=1))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "keys"),
        ('{"facts": []}', "keys"),
        ('{"facts": [], "subject": "a", "object": "b", "x": 1}', "keys"),
        ('{"facts": [], "subject": "a", "object": "b"}', "no facts"),
        ('{"facts": 1, "subject": "a", "object": "b"}', "facts must be a list"),
        ('{"facts": [["a","p"]], "subject": "a", "object": "b"}', "is not \\[subject"),
        ('{"facts": [["a","p",""]], "subject": "a", "object": "b"}', "is not \\[subject"),
        ('{"facts": [["a","p","b"]], "subject": 1, "object": "b"}', "must be names"),
        ('{"facts": [["a\\u0000","p","b"]], "subject": "b", "object": "b"}', "NUL"),
        ('{"facts": [["a","\\ud800","b"]], "subject": "a", "object": "b"}', "surrogate"),
        ('{"facts": [["a","p","b"]], "subject": "a", "object": "b", "label": "%s"}' % ("p" * 513), "longer than 512"),
        ('{"facts": [["a","p","b"]], "subject": "a", "object": "c", "label": "p"}', "'c', which is in no fact"),
    ],
)
def test_a_bad_json_line_names_its_place(line: str, reason: str) -> None:
    good = json.dumps({"facts": [["a", "p", "b"]], "subject": "a", "object": "b", "label": "p"})
    with pytest.raises(ParseError, match=f"g.jsonl, line 3: .*{reason}"):
        list(numbered_graphs_jsonl([good, "\n", line], "g.jsonl"))


def test_how_long_a_name_may_be_is_told() -> None:
    line = json.dumps({"facts": [["ann", "p", "bob"]], "subject": "ann", "object": "bob", "label": "p"})
    assert len(list(numbered_graphs_jsonl([line], "g.jsonl", 3))) == 1
    with pytest.raises(ParseError, match=r"g\.jsonl, line 1: a name of 3 characters is longer than 2"):
        list(numbered_graphs_jsonl([line], "g.jsonl", 2))
    with pytest.raises(ParseError, match="line 3: a name of 6 characters is longer than 5"):
        list(numbered_clutrr(io.StringIO(clutrr_csv(ROW)), "1.2_train.csv", 5))


def graph(*facts: tuple[str, str, str], query: str = "ab", label: str | None = "p") -> Graph:
    return Graph(tuple(Fact(*fact) for fact in facts), query[0], query[1], label)


def test_a_kb_of_graphs_checks_what_each_split_uses() -> None:
    good = graph(("a", "p", "b"))
    assert graphs_kb({"train": [good], "test": [good]}).targets == ("p",)
    for splits, reason in (
        ({"train": []}, "no training graphs"),
        ({"train": [graph(("a", "p", "b"), label=None)]}, "no training graph has a label"),
        ({"train": [good], "test": [good, Graph((), "a", "b", "p")]}, "test, graph 2: the graph has no facts"),
        ({"train": [good, Graph((), "a", "b", "p")]}, "train, graph 2: the graph has no facts"),
        ({"train": [graph(("a", "p", "b"), query="ac")]}, "train, graph 1: the query pair names 'c'"),
    ):
        with pytest.raises(DataError, match=reason):
            graphs_kb(splits)


def built(**splits: list[Graph]) -> BuiltGraphs:
    builder = GraphsBuilder(KbLimits())
    for split, graphs in splits.items():
        file = f"{split}.jsonl"
        builder.add(split, numbered_graphs_jsonl(["\n", *write_graphs_jsonl(graphs)], file), file)
    return builder.build()


def test_what_training_never_saw_is_kept_and_told_with_its_place() -> None:
    good = graph(("a", "p", "b"))
    found = built(train=[good], test=[good, graph(("a", "q", "b")), graph(("a", "r", "b"), label="s")])
    assert found.warnings == [
        "2 predicates of test do not occur in train, e.g. 'q' in test.jsonl, line 3: "
        "2 graphs cannot be answered and count as wrong",
        "1 labels of test do not occur in train, e.g. 's' in test.jsonl, line 4: "
        "1 graphs cannot be answered and count as wrong",
    ]
    assert (tuple(found.kb.predicates), found.kb.targets) == (("p",), ("p",))
    assert tuple(found.predicates) == ("p", "q", "r", "s")
    assert len(found.kb.splits["test"]) == 3
    assert built(train=[good], test=[good]).warnings == []


def test_training_graphs_that_teach_nothing_are_told_with_their_place() -> None:
    chain = graph(("a", "p", "c"), ("c", "p", "b"))
    apart, itself = graph(("a", "p", "c"), ("d", "p", "b")), graph(("a", "p", "b"), query="aa")
    turned, ring = graph(("a", "p", "c"), ("b", "p", "c")), graph(("a", "p", "b"), ("b", "p", "a"), query="aa")
    assert built(train=[chain, turned, ring]).warnings == []
    unlabelled = replace(chain, label=None)
    assert built(train=[chain, apart, itself, unlabelled]).warnings == [
        "in 2 graphs of train no path joins subject and object, e.g. train.jsonl, line 3",
        "in 1 graphs of train there is no label, so they teach nothing, e.g. train.jsonl, line 5",
    ]
    with pytest.raises(DataError, match=r"no training graph has a label: train\.jsonl, line 2 has none"):
        built(train=[unlabelled, unlabelled])


def test_isomorphic_graphs_are_one_with_a_weight() -> None:
    first = graph(("a", "p", "b"), ("b", "q", "c"), ("a", "p", "d"), query="ac")
    renamed = graph(("z", "p", "y"), ("x", "q", "w"), ("z", "p", "x"), query="zw")
    other = graph(("a", "p", "b"), ("b", "q", "c"), ("a", "p", "d"), query="ac", label="q")
    turned = graph(("a", "p", "b"), ("b", "q", "c"), ("a", "p", "d"), query="ca")
    found = distinct([first, renamed, renamed, other, turned, graph(("a", "p", "b"), label=None)])
    assert [graph.labels for graph in found] == [(("p", 3), ("q", 1)), (("p", 1),)]


def test_repeated_facts_and_parallel_edges_do_not_grow_a_graph() -> None:
    many = graph(*[("a", f"p{i % 7}", "b") for i in range(10_000)])
    assert len(canonical(number(many)[0]).edges) == 7


def test_colours_that_look_alike_are_told_apart_by_trial() -> None:
    """A ring of six and two rings of three have the same colours everywhere."""
    ring = [("a", "p", "b")] + [(f"{i}", "q", f"{(i + 1) % 6}") for i in range(6)]
    rings = [("a", "p", "b")] + [(f"{i}", "q", f"{i // 3 * 3 + (i + 1) % 3}") for i in range(6)]
    assert len(distinct([graph(*ring), graph(*rings), graph(*reversed(ring))])) == 2


def test_a_graph_too_symmetric_to_try_keeps_its_own_numbers() -> None:
    star = graph(("a", "p", "b"), *[("a", "q", f"leaf{i}") for i in range(200)])
    assert canonical(number(star)[0]) == number(star)[0]


@pytest.mark.slow
def test_family_graphs_are_simple_chains_with_exact_labels_from_a_seed() -> None:
    graphs = family_graphs(400, (2, 3, 5, 9), seed=3)
    assert graphs == family_graphs(400, (2, 3, 5, 9), seed=3)
    assert graphs != family_graphs(400, (2, 3, 5, 9), seed=4)
    assert {g.label for g in graphs} == set(TARGETS)
    assert {fact.predicate for g in graphs for fact in g.facts} == set(EDGES)
    for g in graphs:
        people = [g.facts[0].subject, *(fact.object for fact in g.facts)]
        assert [fact.subject for fact in g.facts] == people[:-1]
        assert len(set(people)) == len(people)
        assert (people[0], people[-1]) == (g.subject, g.object)
        assert len({fact.predicate for fact in g.facts}) > 1


def test_family_labels_follow_from_the_chain_by_sound_rules_alone() -> None:
    rules = sound_compositions()
    assert rules[("brother", "father")] == "father"
    assert ("son", "grandfather") not in rules  # a father or a father-in-law
    for g in family_graphs(60, (2, 3, 6), seed=5):
        spans = {(i, i + 1): {fact.predicate} for i, fact in enumerate(g.facts)}
        for width in range(2, len(g.facts) + 1):
            for i in range(len(g.facts) - width + 1):
                pairs = [(a, b) for z in range(i + 1, i + width) for a in spans[i, z] for b in spans[z, i + width]]
                spans[i, i + width] = {rules[pair] for pair in pairs if pair in rules}
        assert spans[0, len(g.facts)] == {g.label}


@pytest.mark.slow
@pytest.mark.parametrize("lengths", [(2, 3), (4, 6, 8, 10), (20,)])
def test_the_last_fact_alone_does_not_give_the_label_away(lengths: tuple[int, ...]) -> None:
    by_last: dict[str, Counter[str | None]] = defaultdict(Counter)
    graphs = family_graphs(1000, lengths, seed=11)
    for g in graphs:
        by_last[g.facts[-1].predicate][g.label] += 1
    assert sum(max(labels.values()) for labels in by_last.values()) <= 0.4 * len(graphs)


def test_family_graphs_have_at_least_two_facts() -> None:
    with pytest.raises(ConfigError, match="at least 2"):
        family_graphs(1, (1,), seed=0)
