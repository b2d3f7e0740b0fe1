import json
from collections.abc import Iterator
from dataclasses import asdict, replace

import pytest

from dgpnet.errors import Error
from dgpnet.segmenter.entries import PAGE, Database, Entries, Entry, text, untext
from dgpnet.segmenter.figures import Figures

FIGURES = Figures(4, 3, False, False, 0.5, 0.4, 0.9, 0.1, 0.2, (5,), (0.4,), (), (0.5,), (0.4,), (0.9,), 0.01)


def entry(name: str, score: float = 0.5, made_with: str = "m", *, painted: bool = False) -> Entry:
    figures = replace(FIGURES, score=score, painted=painted)
    return Entry(f"{name}.jpg", name, f"/photos/{name}.jpg", (1, 2), made_with, 3, "d", {f"report/{name}": 4}, figures)


def of(*several: Entry) -> Entries:
    entries = Entries()
    entries.add(several)
    return entries


def test_what_is_added_is_there_by_its_key_and_a_later_one_takes_its_place():
    entries = of(entry("a"), entry("trip/b"), entry("a", 0.7))
    assert entries == {"a": entry("a", 0.7), "trip/b": entry("trip/b")}
    assert entries.get("c") is None
    assert len(entries) == 2
    assert dict(entries.names()) == {"a.jpg": "a", "trip/b.jpg": "trip/b"}
    assert not Entries()


def test_the_least_certain_come_first_and_what_a_person_painted_last():
    entries = of(entry("a", 0.9), entry("p", 0.0, painted=True), entry("b", 0.1), entry("c", 0.5), entry("bb", 0.1))
    assert [one.key for one in entries.of_round("m")] == ["b", "bb", "c", "a", "p"]
    assert [one.key for one in entries.of_round("m").by_name()] == ["a", "b", "bb", "c", "p"]


def test_a_round_is_read_anew_each_time_and_has_no_other_round_s():
    entries = of(entry("a"), entry("b", made_with="before"))
    now = entries.of_round("m")
    assert (len(now), [one.key for one in now]) == (1, ["a"])
    assert [one.key for one in entries.of_others("m")] == ["b"]
    entries.add([entry("b")])
    assert (len(now), [one.key for one in now]) == (2, ["a", "b"])


def test_names_are_in_the_order_of_python_whatever_they_have():
    names = ["é", "z", "A", "\udce9", "\U0001f600", "￿", "a b", "a/b", "a\u2028"]
    entries = of(*map(entry, names))
    assert [one.key for one in entries.of_round("m").by_name()] == [
        name.removesuffix(".jpg") for name in sorted(f"{name}.jpg" for name in names)
    ]
    assert all(untext(text(name)) == name for name in names)


def test_more_than_a_page_comes_out_whole_also_while_some_are_looked_up():
    entries = of(*(entry(f"{n:05}", n / 5000) for n in range(2 * PAGE + 1)))
    seen = [one.key for one in entries.of_round("m") if entries[one.key] == one]
    assert seen == [f"{n:05}" for n in range(2 * PAGE + 1)]


def test_a_record_that_leads_outside_is_none():
    record = json.loads(json.dumps(asdict(entry("a"))))
    assert Entry.of(record) == entry("a")
    for wrong in ({"key": "../a"}, {"key": "/a"}, {"files": {"../../a": 1}}, {"figures": {"width": 3}}, {"key": 3}):
        assert Entry.of({**record, **wrong}) is None


def test_a_full_disk_for_temporary_files_is_a_sentence():
    database = Database("CREATE TABLE t (x BLOB)")
    database.ask("PRAGMA max_page_count = 10")

    def rows() -> Iterator[tuple[bytes]]:
        for _ in range(100):
            yield (b"x" * 4000,)

    with pytest.raises(Error, match=r"disk for temporary files.*SQLITE_TMPDIR"):
        database.change("INSERT INTO t VALUES (?)", rows())


def test_a_change_that_was_interrupted_keeps_nobody_from_the_next():
    database = Database("CREATE TABLE t (x INTEGER)")

    def rows() -> Iterator[tuple[int]]:
        yield (1,)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        database.change("INSERT INTO t VALUES (?)", rows())
    database.change("INSERT INTO t VALUES (?)", [(2,)])
    assert database.ask("SELECT x FROM t") == [(1,), (2,)]
