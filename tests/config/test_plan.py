"""What has to happen for one file to become another."""

import os
from pathlib import Path

import pytest

from appliance.config import load
from appliance.config.deployment import ModelSpec
from appliance.config.diff import APPLY, AddModel, ChangeModel, ChangeSetting, Plan, RemoveModel, apply_class, diff
from appliance.config.render import as_data, render, weigh
from appliance.config.schema import JsonSchema
from tests.config import golden

PROPERTIES = {".".join(path): schema for path, schema in load.schema("deploy").properties()}
AVAILABLE = [(path, schema) for path, schema in PROPERTIES.items() if not schema.get("x-load-time")]
SETTINGS = [(path, s) for path, s in AVAILABLE if not any(other.startswith(f"{path}.") for other, _ in AVAILABLE)]


def _estimate(model: ModelSpec) -> int | None:
    checkpoint = golden.inspect(model.source)
    if checkpoint is None:
        return 2**26 if model.source.kind == "fake" else None
    return checkpoint.weight_bytes


@pytest.mark.parametrize("case", golden.cases("plans"), ids=lambda case: case.stem)
def test_the_plan_from_the_first_file_to_the_second_is_this(case: Path, here: Path) -> None:
    """With the memory of a machine on which models of `load: startup` are loaded and no others."""

    def plan(old: str, new: str) -> str:
        before, after = (golden.read(text, tolerate={"E110"}) for text in (old, new))
        return render(diff(before, after), weigh(before, after, _estimate))

    golden.hold(case, 2, plan, here)


@pytest.mark.parametrize("case", golden.cases("plans"), ids=lambda case: case.stem)
def test_a_file_becomes_itself_by_doing_nothing(case: Path, here: Path) -> None:
    text = case.read_text(encoding="utf-8").split(f"{golden.DIVIDER}\n")[1]
    plan = diff(golden.read(text, tolerate={"E110"}), golden.read(text, tolerate={"E110"}))
    assert plan == Plan(())
    assert not plan


@pytest.mark.parametrize(("path", "schema"), SETTINGS, ids=[path for path, _ in SETTINGS])
def test_the_table_of_changes_says_what_the_schema_says(path: str, schema: JsonSchema) -> None:
    assert apply_class(tuple(path.split("."))) == schema["x-apply"]


def test_the_table_of_changes_names_only_settings_there_are() -> None:
    assert {row.removesuffix(".*") for row in APPLY} <= {path for path, _ in AVAILABLE}


def test_files_that_changed_on_disk_are_another_engine(here: Path) -> None:
    text = "version: 1\nmodels: {demo: {source: ./models/here}}\n"
    old = golden.read(text)
    (here / "models/here/README.md").write_text("other words")
    assert not diff(old, golden.read(text))
    os.utime(here / "models/here/model.safetensors", ns=(10**18, 10**18 + 1))
    plan = diff(old, golden.read(text))
    assert str(plan) == "~! models.demo.source: ./models/here > its files changed"


def test_actions_say_which_model_and_how_much(here: Path) -> None:
    old = golden.read("version: 1\nmodels: {a: {source: 'fake:script.yaml'}, b: {source: 'fake:script.yaml'}}\n")
    new = golden.read(
        "version: 1\nengine: {stall_target: 1s}\n"
        "models: {b: {source: 'fake:script.yaml', dtype: float32, pin: true}, c: {source: smollm2-135m}}\n"
    )
    removed, added, changed, setting = diff(old, new).actions
    assert removed == RemoveModel("a")
    assert added == AddModel("c")
    assert isinstance(changed, ChangeModel)
    assert (changed.name, changed.apply, [change.apply for change in changed.changes]) == (
        "b",
        "engine",
        ["engine", "live"],
    )
    assert isinstance(setting, ChangeSetting)
    assert (setting.change.path, setting.apply) == ("engine.stall_target", "live")


def test_requests_in_flight_are_said_where_they_keep_an_engine_waiting(here: Path) -> None:
    models = "models: {{a: {{source: 'hf:test/qwen3', dtype: {0}}}, b: {{source: 'hf:test/unknown'}}}}\n"
    old, new = (golden.read("version: 1\n" + models.format(dtype)) for dtype in ("float16", "float32"))
    plan, in_flight = diff(old, new), {"a": 1, "b": 2}
    lines = render(plan, in_flight=in_flight).splitlines()
    assert "  ~! a: replaced by another engine; 1 request in flight finishes first" in lines
    assert "  =  b: kept" in lines
    assert as_data(plan, in_flight=in_flight)["in_flight"] == in_flight


@pytest.mark.parametrize(
    ("loaded", "numbers"),
    [
        (None, (0, 0, 0)),
        ([], (0, 0, 0)),
        (["small"], (1, 1, 1)),
        (["five"], (5, 6, 6)),
        (["small", "five"], (6, 7, 7)),
    ],
    ids=["as the file says", "nothing", "one that stays", "one that is replaced", "both"],
)
def test_memory_counts_what_is_loaded_now(here: Path, loaded: list[str] | None, numbers: tuple[int, ...]) -> None:
    models = "models: {{small: {{source: 'hf:test/qwen3'}}, five: {{source: 'hf:test/{0}-gib'}}}}\n"
    old, new = (golden.read("version: 1\n" + models.format(size)) for size in ("five", "six"))
    memory = weigh(old, new, _estimate, loaded)
    assert (memory.before, memory.peak, memory.after) == tuple(number * golden.GIB for number in numbers)
