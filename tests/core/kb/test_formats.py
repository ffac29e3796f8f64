"""Every format gives back what it was given, and says where a file is bad."""

import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctp_core.errors import CtpError, DataError, ParseError, TooLarge
from ctp_core.kb.facts_builder import FactsBuilder, KbLimits
from ctp_core.kb.formats.gzipped import ZipLimits, maybe_gunzipped
from ctp_core.kb.formats.registry import FORMATS, formats_of, recognise
from ctp_core.kb.formats.rows import FileLimits, read_lines
from ctp_core.kb.formats.tsv import UNSAFE, write_tsv
from ctp_core.symbols import Fact, check_name

BAD_FILES = Path(__file__).parent / "bad_files"
LIMITS = FileLimits(max_line_bytes=4096)
NASTY = [
    *"\t\n\r\"'\\,.()%# []{}é",
    "\r\n",
    "\\n",
    "\\x8\\",
    "#escaped",
    "<a:b>",
    "_:b",
    "urn:ctp:name:x",
    "a:b",
    '"x"@en',
]
NASTY += ["a:b", '"x"@en', "\u202e", "\x85", "\u2028", "\ufeff", "../", "<script>"]
names = st.one_of(
    st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), min_size=1, max_size=8),
    st.lists(st.sampled_from(NASTY), min_size=1, max_size=3).map("".join),
)
fact_lists = st.lists(st.builds(Fact, names, names, names), min_size=1, max_size=6)


def write(format_name: str, facts: list[Fact]) -> bytes:
    if format_name == "tsv":
        lines = write_tsv(facts, escape=any(UNSAFE.search(name) for fact in facts for name in fact))
    else:
        lines = FORMATS[format_name].to_text(facts)
    return "".join(lines).encode()


def read(format_name: str, content: bytes) -> list[Fact]:
    return [Fact(*row[1:]) for row in FORMATS[format_name].read(io.BytesIO(content), "file", LIMITS)]


def test_a_doubled_quote_of_the_other_kind_is_two_characters() -> None:
    content = b"""p('a""b', 'c''d').\np("a''b", "c""d").\n"""
    assert read("prolog", content) == [Fact('a""b', "p", "c'd"), Fact("a''b", "p", 'c"d')]


@pytest.mark.parametrize("format_name", formats_of("facts"))
@settings(max_examples=50)  # of each format
@given(facts=fact_lists)
def test_what_is_written_is_read_again_unchanged(format_name: str, facts: list[Fact]) -> None:
    assert read(format_name, write(format_name, facts)) == facts


@pytest.mark.parametrize("format_name", formats_of("facts"))
@settings(max_examples=50)  # of each format
@given(content=st.one_of(st.binary(max_size=200), fact_lists.map(lambda facts: write("csv", facts)[::-1])))
def test_a_reader_ends_with_rows_or_with_an_error_that_names_the_line(format_name: str, content: bytes) -> None:
    try:
        read(format_name, content)
    except ParseError as error:
        assert error.line >= 1
        assert error.reason


@given(content=st.text(max_size=300), size=st.integers(1, 64))
def test_lines_do_not_depend_on_how_the_file_comes_in(content: str, size: int) -> None:
    class Dribble(io.BytesIO):
        def read(self, _: int | None = -1) -> bytes:
            return super().read(size)

    data = content.encode()
    whole = list(read_lines(io.BytesIO(data), "f", LIMITS))
    assert list(read_lines(Dribble(data), "f", LIMITS)) == whole


@pytest.mark.parametrize("format_name", [name for name in formats_of("facts") if name != "turtle"])
def test_a_format_is_recognised_by_its_content(format_name: str) -> None:
    facts = [Fact("http://x.org/a", "http://x.org/p", "http://x.org/b"), Fact("a", "p", "b")]
    assert recognise("upload", write(format_name, facts)) == format_name


@pytest.mark.parametrize(
    ("name", "head", "expected"),
    [
        ("a.ttl", b"", "turtle"),
        ("a.TTL.gz", b"", "turtle"),
        ("x", b"@prefix a: <http://x/> .\na:b a:c a:d .", "turtle"),
        ("x.csv", b"id,story,query,text_query,target,story_edges,edge_types,query_edge,genders\n", "clutrr"),
        ("x.jsonl", b'{"facts": [["a","p","b"]], "subject": "a", "object": "b", "label": "p"}', "graphs"),
        ("x.txt", b"\xef\xbb\xbfa\tp\tb\n", "tsv"),
    ],
)
def test_names_and_first_lines_tell_the_format(name: str, head: bytes, expected: str) -> None:
    assert recognise(name, head) == expected


def test_a_file_that_tells_nothing_is_refused_with_the_formats_there_are() -> None:
    with pytest.raises(DataError, match="ntriples"):
        recognise("x.bin", b"\x00\x01\x02")


@pytest.mark.parametrize("path", sorted(BAD_FILES.iterdir()), ids=lambda path: path.name)
def test_each_bad_file_of_the_corpus_is_refused_at_its_line(path: Path) -> None:
    """The name of a file is its format, the line of the fault, and what is wrong: `tsv-2-one-column`."""
    format_name, line, _ = path.name.split("-", 2)
    builder = FactsBuilder(KbLimits(max_name_length=100))
    with pytest.raises(CtpError) as caught, path.open("rb") as file:
        content = maybe_gunzipped(file, path.name, ZipLimits(max_bytes=1 << 22, max_ratio=50))
        builder.add("train", FORMATS[format_name].read(content, path.name, LIMITS), path.name)
    if isinstance(caught.value, ParseError):
        assert caught.value.line == int(line)


def test_a_small_file_does_not_become_a_large_one() -> None:
    bomb = gzip.compress(b"a\tp\tb\n" * 2_000_000)
    with pytest.raises(TooLarge, match="times its size"):
        list(FORMATS["tsv"].read(maybe_gunzipped(io.BytesIO(bomb), "f", ZipLimits()), "f", LIMITS))
    with pytest.raises(TooLarge, match="1000 bytes"):
        maybe_gunzipped(io.BytesIO(bomb), "f", ZipLimits(max_bytes=1000)).read(2000)


def test_a_blank_node_without_a_label_has_the_same_name_each_time() -> None:
    turtle = b"@prefix a: <http://x/> . a:s a:p [ a:q a:o ] ."
    assert read("turtle", turtle) == read("turtle", turtle)


def test_limits_on_facts_and_symbols_hold_over_all_splits() -> None:
    builder = FactsBuilder(KbLimits(max_facts=3))
    builder.add("train", [(1, "a", "p", "b"), (2, "b", "p", "c")], "f")
    with pytest.raises(TooLarge, match="3 facts"):
        builder.add("test", [(1, "a", "p", "c"), (2, "c", "p", "a")], "f")
    with pytest.raises(TooLarge, match="1 entities"):
        FactsBuilder(KbLimits(max_symbols=1)).add("train", [(1, "a", "p", "b")], "f")


def test_the_same_facts_have_the_same_hash_whatever_format_they_came_in() -> None:
    facts = [Fact("a", "p", "b"), Fact("b", "q", "a"), Fact("a", "p", "b")]
    hashes = set()
    for format_name in formats_of("facts"):
        builder = FactsBuilder(KbLimits())
        builder.add("train", FORMATS[format_name].read(io.BytesIO(write(format_name, facts)), "f", LIMITS), "f")
        built = builder.build()
        hashes.add(built.sha256)
        assert built.warnings == ["1 duplicate facts were dropped from train"]
    assert len(hashes) == 1


@pytest.mark.parametrize("name", ["", "x" * 513, "a\0b", "\ud800"])
def test_what_cannot_be_stored_is_no_name(name: str) -> None:
    with pytest.raises(DataError):
        check_name(name)
