"""What makes another engine, and what does not."""

import pytest

from appliance.config.deployment import Source
from appliance.config.fingerprint import FileFact, fingerprint

DIRECTORY = Source("path", "/models/here", "./here")
FILES: tuple[FileFact, ...] = (("config.json", 2, 10), ("model.safetensors", 7, 10))


def test_a_fingerprint_stays_what_it_was_in_earlier_versions() -> None:
    assert (
        fingerprint(DIRECTORY, "auto", False, FILES)
        == "8825244d24aae526aafc68a7866cae5f4df52a0e40136e8f568fd3406647a7e0"
    )


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(fingerprint(Source("path", "/models/there", "./here"), "auto", False, FILES), id="place"),
        pytest.param(fingerprint(Source("gguf", "/models/here", "./here"), "auto", False, FILES), id="kind"),
        pytest.param(fingerprint(Source("path", "/models/here", "./here", "x"), "auto", False, FILES), id="revision"),
        pytest.param(fingerprint(DIRECTORY, "float32", False, FILES), id="dtype"),
        pytest.param(fingerprint(DIRECTORY, "auto", True, FILES), id="trust"),
        pytest.param(fingerprint(DIRECTORY, "auto", False, FILES[:1]), id="a file gone"),
        pytest.param(fingerprint(DIRECTORY, "auto", False, (("config.json", 3, 10), FILES[1])), id="a file's size"),
        pytest.param(fingerprint(DIRECTORY, "auto", False, (("config.json", 2, 11), FILES[1])), id="a file's time"),
    ],
)
def test_whatever_decides_the_weights_is_in_the_fingerprint(other: str) -> None:
    assert other != fingerprint(DIRECTORY, "auto", False, FILES)


@pytest.mark.parametrize(
    "same",
    [
        pytest.param(
            fingerprint(Source("path", "/models/here", "/models/here"), "auto", False, FILES), id="spelling"
        ),
        pytest.param(fingerprint(DIRECTORY, "auto", False, FILES[::-1]), id="order of files"),
        pytest.param(fingerprint(DIRECTORY, "auto", False, (*FILES, ("README.md", 1, 1))), id="a file nobody loads"),
    ],
)
def test_names_and_notes_are_not(same: str) -> None:
    assert same == fingerprint(DIRECTORY, "auto", False, FILES)
