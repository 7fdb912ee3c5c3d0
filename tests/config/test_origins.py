"""Where values come from, word for word."""

from functools import cache, partial
from pathlib import Path

import pytest

from appliance.cli.config import block
from appliance.config import load
from appliance.config.load_families import written
from appliance.config.origins import NoSuchSetting, find_origins, origins
from appliance.config.settings import settings
from tests.config import golden

FAMILIES = cache(partial(written, own=None))


@pytest.mark.parametrize("case", golden.cases("origins"), ids=lambda case: case.stem)
def test_a_value_comes_from_here(case: Path, here: Path) -> None:
    def explained(text: str, questions: str) -> str:
        examined = golden.examine(text, tolerate={"E110"})
        known = origins(examined.deployment, examined.written, load.schema("deploy"), FAMILIES)
        lines = []
        for question in questions.splitlines():
            try:
                lines += [line for origin in find_origins(question, known) for line in block(origin)]
            except NoSuchSetting as error:
                lines.append(str(error))
        return "\n".join(lines)

    golden.hold(case, 2, explained, here)


@pytest.mark.parametrize("case", golden.cases("resolutions"), ids=lambda case: case.stem)
def test_every_setting_has_an_origin_and_its_value_is_the_setting(case: Path, here: Path) -> None:
    examined = golden.examine(case.read_text().split(f"{golden.DIVIDER}\n")[0], tolerate={"E110"})
    known = origins(examined.deployment, examined.written, load.schema("deploy"), FAMILIES)
    for path, setting in settings(examined.deployment).items():
        if path[0] in ("models", "aliases") and path[2] in ("sampling", "template"):
            continue
        assert known[path].value == setting.data
        assert known[path].layers
