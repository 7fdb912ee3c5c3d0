"""The first deploy file fits the machine and this version's language, also with its suggestions switched on."""

import re
from pathlib import Path

import pytest

from appliance.config.units import show_bytes
from appliance.convert.source import OLLAMA
from appliance.convert.starter import BY_MEMORY, DEMO, choose, starter
from tests.convert.world import CATALOGUE, deployment

GIB = 2**30
CHOICES = [DEMO, *(choice for _, choice in BY_MEMORY)]


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: choice.model)
def test_a_first_file_has_no_problem(choice: object, tmp_path: Path) -> None:
    found = deployment(starter(choice, "64.0 GiB"), tmp_path)  # type: ignore[arg-type]
    assert not found.warnings
    assert len(found.models) == 1


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: choice.model)
def test_its_suggestions_can_be_switched_on(choice: object, tmp_path: Path) -> None:
    text = starter(choice, "64.0 GiB")  # type: ignore[arg-type]
    switched_on = re.sub(r"^( *)#(?=[a-z\"]|  )(.*)$", _uncommented, text, flags=re.MULTILINE)
    assert switched_on != text
    found = deployment(switched_on, tmp_path)
    assert found.profiles
    assert "gpt-4*" in found.aliases
    assert found.defaults.policy.clamp


def _uncommented(match: re.Match[str]) -> str:
    # A line of prose about commands is indented too, but has no colon.
    return match[1] + match[2] if ":" in match[2] else match[0]


@pytest.mark.parametrize("memory", [8, 12, 15.6, 16, 24, 32, 36, 48, 64, 96, 128, 192, 512])
def test_a_mac_gets_a_model_that_fits_its_budget(memory: float) -> None:
    choice = choose(int(memory * GIB), apple_silicon=True)
    assert choice.weights <= 0.75 * memory * GIB / 1.3
    assert choice != DEMO


def test_a_larger_machine_gets_no_smaller_model() -> None:
    weights = [choose(gib * GIB, apple_silicon=True).weights for gib in range(4, 256)]
    assert weights == sorted(weights)


def test_another_machine_gets_the_demo_model() -> None:
    assert choose(512 * GIB, apple_silicon=False) is DEMO


def test_every_model_that_is_chosen_is_in_the_catalogue() -> None:
    assert {choice.model for choice in CHOICES} | set(OLLAMA.values()) <= CATALOGUE


def test_the_file_says_what_the_machine_has() -> None:
    assert show_bytes(16 * GIB) in starter(DEMO, show_bytes(16 * GIB))
