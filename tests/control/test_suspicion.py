"""Who is blamed for the deaths of engines."""

import pytest

from appliance.control.suspicion import PROBATION_TOKENS, Death, End, Suspicion


@pytest.mark.parametrize(
    "end, blamed",
    [
        pytest.param(End(-6), True, id="aborted"),
        pytest.param(End(-11), True, id="segmentation fault"),
        pytest.param(End(3), True, id="exit code"),
        pytest.param(End(70), True, id="Python exception"),
        pytest.param(End(-9), False, id="killed by the kernel or a person"),
        pytest.param(End(-15), False, id="told to end by a person"),
        pytest.param(End(-9, hung=True), True, id="killed by us because it hung"),
        pytest.param(End(-9, killed=True), True, id="killed by us because it closed its link and did not end"),
    ],
)
def test_what_a_request_may_be_blamed_for(end, blamed):
    assert end.blamed is blamed


def crash(alone=False, tokens=0):
    return Death(True, alone, tokens)


def kill(alone=False, tokens=0):
    return Death(False, alone, tokens)


LONG = PROBATION_TOKENS


@pytest.mark.parametrize(
    "deaths, suspect, guilty",
    [
        pytest.param([crash()], False, False, id="one death is bad luck"),
        pytest.param([crash(), crash()], True, False, id="two in company make a suspect"),
        pytest.param([crash(tokens=5), crash(tokens=5)], True, False, id="a few tokens in between do not help"),
        pytest.param([crash(), crash(), crash(True)], True, False, id="one death alone proves nothing"),
        pytest.param([crash(), crash(), crash(True), crash(True)], True, True, id="two alone are proof"),
        pytest.param([crash(True), crash(True)], True, True, id="whoever was alone from the start is proven sooner"),
        pytest.param([crash(True), crash(), crash(True)], True, False, id="two alone, but not in a row"),
        pytest.param([crash(True), crash(True, LONG)], False, False, id="it got through its probation in between"),
        pytest.param([crash(True), crash(True, LONG), crash(True, LONG)], True, True, id="the next one is longer"),
        pytest.param([kill(tokens=1)] * 200, False, False, id="kills from outside are blamed on nobody"),
        pytest.param([kill()] * 200, True, False, id="a kill in company proves nothing, however many"),
        pytest.param([kill(True)] * 4, True, False, id="a few kills alone prove nothing"),
        pytest.param([kill(True)] * 5, True, True, id="it never gets one token before memory is out"),
        pytest.param([*[kill(True)] * 4, kill(True, 1), *[kill(True)] * 4], True, False, id="it got a token once"),
    ],
)
def test_what_deaths_in_a_row_mean(deaths, suspect, guilty):
    suspicion = Suspicion()
    for death in deaths:
        suspicion = suspicion.after(death)
    assert (suspicion.suspect, suspicion.guilty) == (suspect, guilty)


def test_every_probation_is_twice_as_long_as_the_one_before():
    suspicion = Suspicion()
    lengths = [suspicion.probation, (suspicion := suspicion.clear()).probation, suspicion.clear().probation]
    assert lengths == [LONG, 2 * LONG, 4 * LONG]
