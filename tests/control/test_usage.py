"""What was used is known after a restart."""

import math
import sqlite3
import stat
from datetime import date, timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from appliance.control.usage import HOUR, KEPT_DAYS, Record, Unreadable, Usage, Used, recorded

TODAY, YESTERDAY = date(2026, 11, 29), date(2026, 11, 28)
NOON = (TODAY - date(1970, 1, 1)).days * 24 * HOUR


def test_totals_survive_by_key_and_day(tmp_path: Path) -> None:
    file = tmp_path / "usage.sqlite"
    with Usage(file) as usage:
        assert usage.of(TODAY) == {}
        usage.put("ci", YESTERDAY, 7)
        for total in (1, 2, 3):
            usage.put("ci", TODAY, total)
        usage.put("ann", TODAY, 9)
    with Usage(file) as usage:
        assert usage.of(TODAY) == {"ci": 3, "ann": 9}
        assert usage.of(YESTERDAY) == {"ci": 7}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_file_that_is_no_database_is_said_and_stops_nothing(tmp_path: Path) -> None:
    file = tmp_path / "usage.sqlite"
    file.write_bytes(b"not a database, and long enough to be taken for one" * 100)
    with capture_logs() as said, Usage(file) as usage:
        assert usage.of(TODAY) == {}
        usage.put("ci", TODAY, 1)
        usage.add("ci", "m", Used(1), 0)
    assert [entry["event"] for entry in said][:2] == ["usage.unreadable", "usage.not_recorded"]
    with pytest.raises(Unreadable, match="cannot be read: file is not a database"):
        list(recorded(file, 0, math.inf))


def test_what_could_not_be_written_is_written_with_the_next_record(tmp_path: Path) -> None:
    file = tmp_path / "usage.sqlite"
    with Usage(file) as usage:
        usage.put("ci", TODAY, 1)
        usage.add("ci", "m", Used(1), NOON)
        assert usage.of(TODAY) == {"ci": 1}
        with sqlite3.connect(file, isolation_level=None) as other:
            # As a full disk does, it refuses whatever is written.
            other.execute("CREATE TRIGGER full BEFORE INSERT ON hourly BEGIN SELECT RAISE(FAIL, 'full'); END")
            with capture_logs() as said:
                usage.put("ci", TODAY, 2)
                usage.add("ci", "m", Used(1), NOON)
                assert usage.of(TODAY) == {"ci": 1}
                usage.add("ci", "m", Used(1), NOON)
                usage.of(TODAY)
            assert {entry["event"] for entry in said} == {"usage.not_recorded"}
            other.execute("DROP TRIGGER full")
        usage.put("ci", TODAY, 3)
        assert usage.of(TODAY) == {"ci": 3}
    assert [record.used.requests for record in recorded(file, 0, math.inf)] == [3]


def test_hours_add_up_by_key_and_model_while_they_are_written_and_after(tmp_path: Path) -> None:
    file = tmp_path / "usage.sqlite"
    expected = [
        Record(5 * HOUR, "", "m", Used(1, 2, 0, 3)),
        Record(5 * HOUR, "ci", "m", Used(2, 20, 5, 9)),
        Record(6 * HOUR, "ci", "n", Used(1, 1, 1, 1)),
    ]
    with Usage(file) as usage:
        usage.add("ci", "m", Used(1, 10, 5, 4), 5.1 * HOUR)
        usage.add("ci", "m", Used(1, 10, 0, 5), 5.9 * HOUR)
        usage.add("ci", "n", Used(1, 1, 1, 1), 6.0 * HOUR)
        usage.add("", "m", Used(1, 2, 0, 3), 5.0 * HOUR)
        usage.of(date(1970, 1, 1))  # comes after what was to be written before
        assert list(recorded(file, 0, math.inf)) == expected
    assert list(recorded(file, 0, math.inf)) == expected
    with Usage(file) as usage:
        usage.add("", "m", Used(1, 2, 0, 3), 5.0 * HOUR)
    assert next(recorded(file, 0, math.inf)).used == Used(2, 4, 0, 6)


@pytest.mark.parametrize(
    ("since", "until", "hours"),
    [
        pytest.param(0.0, math.inf, [1, 2, 3], id="all"),
        pytest.param(2.5, math.inf, [2, 3], id="from within an hour on"),
        pytest.param(0.0, 3.0, [1, 2], id="until an hour begins"),
        pytest.param(0.0, 3.5, [1, 2, 3], id="until it has begun"),
        pytest.param(4.0, math.inf, [], id="after the last"),
    ],
)
def test_records_are_found_by_time(tmp_path: Path, since: float, until: float, hours: list[int]) -> None:
    file = tmp_path / "usage.sqlite"
    assert list(recorded(file, 0, math.inf)) == []
    with Usage(file) as usage:
        for hour in (1, 2, 3):
            usage.add("ci", "m", Used(1), hour * HOUR)
    assert [each.start // HOUR for each in recorded(file, since * HOUR, until * HOUR)] == hours


def test_a_file_from_before_there_were_records_holds_none(tmp_path: Path) -> None:
    file = tmp_path / "usage.sqlite"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE daily (key TEXT, day TEXT, tokens INTEGER NOT NULL, PRIMARY KEY (key, day))")
    assert list(recorded(file, 0, math.inf)) == []
    with Usage(file) as usage:
        usage.add("ci", "m", Used(1), HOUR)
    assert [each.key for each in recorded(file, 0, math.inf)] == ["ci"]


def test_what_is_older_than_a_year_is_forgotten(tmp_path: Path) -> None:
    file, then = tmp_path / "usage.sqlite", TODAY - timedelta(days=KEPT_DAYS + 1)
    with Usage(file) as usage:
        usage.put("ci", then, 5)
        usage.add("ci", "m", Used(1), (then - date(1970, 1, 1)).days * 24 * HOUR)
        usage.add("ci", "n", Used(1), (TODAY - date(1970, 1, 1)).days * 24 * HOUR)
        assert usage.of(TODAY) == {}
        assert usage.of(then) == {}
    assert [each.model for each in recorded(file, 0, math.inf)] == ["n"]
