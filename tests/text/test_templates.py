"""Families without a well-known template at hand agree with one in their manner: it is found, rendered and probed."""

from dataclasses import replace

import pytest

from appliance.config import load
from appliance.config.family import recognise
from tests.config.golden import checkpoint
from tests.text.own_templates import OWN
from tests.text.template_families import FAMILIES as WELL_KNOWN
from tests.text.templates import problems

FAMILIES = load.families()


@pytest.mark.parametrize("name", OWN)
def test_a_template_in_a_familys_manner_is_of_it_and_agrees_with_its_dialects(name: str) -> None:
    own = OWN[name]
    found = recognise(replace(checkpoint(template=own.source), model_type=own.model_type), FAMILIES.values())
    assert found is not None
    assert found.family.name == name
    assert list(problems(own.source, found)) == []


def test_every_family_has_a_template_to_be_checked_with() -> None:
    assert FAMILIES.keys() - OWN.keys() - set(WELL_KNOWN.values()) == {"generic"}
