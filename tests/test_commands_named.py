"""No message, text or example tells people to run a command that is not there."""

import re
from pathlib import Path

from appliance.cli import COMMANDS

ROOT = Path(__file__).parent.parent
NAMED = re.compile(r"`appliance ([a-z][a-z-]*)")


def test_every_command_that_is_named_exists() -> None:
    places = [*ROOT.glob("appliance/**/*.py"), *ROOT.glob("schemas/*.json"), *ROOT.glob("profiles/*.yaml"),
              *ROOT.glob("examples/*"), ROOT / "README.md", *ROOT.glob("docs/*"), ROOT / "Makefile"]  # fmt: skip
    named = {(name, path.name) for path in places if path.is_file() for name in NAMED.findall(path.read_text())}
    assert len(named) > 20
    assert not {(name, place) for name, place in named if name not in COMMANDS}
