"""What was used is known after a restart."""

import stat
from datetime import date
from pathlib import Path

from structlog.testing import capture_logs

from appliance.control.usage import Usage

TODAY, YESTERDAY = date(2026, 11, 29), date(2026, 11, 28)


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
    assert [entry["event"] for entry in said] == ["usage.unreadable", "usage.not_recorded"]
