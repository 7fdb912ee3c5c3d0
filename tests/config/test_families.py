"""The shipped families, and how a checkpoint finds its own."""

import re
from pathlib import Path

import pytest

from appliance.config import load, load_families, load_shipped, sources
from appliance.config.checkpoint import Checkpoint
from appliance.config.deployment import Family, ModelSpec
from appliance.config.family import GENERIC, FamilyFile, Match, recognise
from appliance.config.problem import Rejected
from appliance.text import dialects, reasoning
from appliance.vocab.request import SamplingPatch
from tests.config.golden import checkpoint
from tests.text import template_families

Named = dialects.ToolFormat | reasoning.Reasoning
FAMILIES = load.families()
CHATML = "{{'<|im_start|>' + message['role'] + '<|im_end|>'}}"
CATALOGUE = [(short, listed.source) for file in FAMILIES.values() for short, listed in file.catalogue.items()]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_names_formats_that_exist(name: str) -> None:
    family = FAMILIES[name].family
    assert dialects.find(family.tool_dialect) is not None
    assert reasoning.find(family.reasoning_dialect) is not None


def test_there_is_a_family_for_the_rest_and_nothing_matches_it() -> None:
    generic = FAMILIES[GENERIC]
    assert generic.family == Family("generic")
    assert generic.score(checkpoint()) == 0


@pytest.mark.parametrize(("short", "source"), CATALOGUE, ids=[short for short, _ in CATALOGUE])
def test_a_short_name_stands_for_a_source_that_is_pinned(short: str, source: str) -> None:
    parsed = sources.parse(source, "/", {})
    assert parsed.kind in ("hf", "pypi")
    assert parsed.kind == "pypi" or re.fullmatch("[0-9a-f]{40}", parsed.revision)


def test_what_every_short_name_needs_is_reckoned() -> None:
    listed = {name: entry.memory for file in FAMILIES.values() for name, entry in file.catalogue.items()}
    assert [name for name, memory in listed.items() if not memory] == []


def test_a_short_name_stands_for_one_source() -> None:
    assert len({short for short, _ in CATALOGUE}) == len(CATALOGUE)


# What stands in a family's chat template and tells it from others: family, tool dialect, reasoning dialect, texts.
TEMPLATES = [
    ("qwen2.5", "hermes_json", "none", "<|im_start|> You are Qwen, created by Alibaba Cloud. <tool_call> arguments"),
    ("qwq", "hermes_json", "deepseek_r1", "<|im_start|> <tool_call> message.content.split('</think>')[-1] <think>"),
    ("qwen3", "hermes_json", "think_tags", "<|im_start|> <tool_call> enable_thinking <think> reasoning_content"),
    (
        "qwen3-instruct-2507", "hermes_json", "none",
        "<|im_start|> <tool_call> messages[0].content + '\\n\\n' tool_call.arguments is string",
    ),
    ("qwen3-thinking-2507", "hermes_json", "think_tags", "<|im_start|> <tool_call> <think> reasoning_content"),
    ("qwen3-coder", "qwen3_coder", "none", "<|im_start|> <tool_call> <function= <parameter= <IMPORTANT>"),
    (
        "qwen3.5", "qwen3_coder", "think_tags",
        "<|im_start|> <tool_call> enable_thinking <think> <function= <parameter= reasoning_content <|vision_start|>",
    ),
    (
        "qwen3.6", "qwen3_coder", "think_tags",
        "<|im_start|> <tool_call> enable_thinking preserve_thinking <think> <function= <parameter= "
        "reasoning_content <|vision_start|>",
    ),
    ("llama3", "llama3_json", "none", "<|start_header_id|> <|eot_id|> <|python_tag|> parameters"),
    ("llama4", "llama4_pythonic", "none", "<|header_start|> <|eot|> <|python_start|><|python_end|>"),
    ("functionary-v3.1", "functionary_v31", "none", "<|start_header_id|> <|eot_id|> <function=name>{}</function>"),
    ("functionary-v3.2", "functionary_v32", "none", "<|start_header_id|> <|eot_id|> recipient >>>all"),
    ("firefunction", "phi4_mini", "none", "<|start_header_id|> <|eot_id|> functools[{}]"),
    ("xlam", "xlam", "none", "You are developed by Salesforce xLAM team <|im_start|>"),
    ("xlam", "xlam", "none", "You are developed by Salesforce xLAM team <|start_header_id|> <|eot_id|>"),
    (
        "xlam", "xlam", "none",
        "developed by Salesforce xLAM team, created by Alibaba Cloud <|im_start|> calls in a single JSON array",
    ),
    ("hermes", "hermes_json", "think_tags", "<|im_start|> You are a function calling AI model <tool_call>"),
    ("hermes-4", "hermes_json", "think_tags", "<|im_start|> <tool_call> You are a deep thinking AI"),
    (
        "hermes-4", "hermes_json", "think_tags",
        "<|im_start|> <tool_call> You are a deep thinking AI <think> reasoning_content",
    ),
    ("hermes-4", "hermes_json", "think_tags", "<|start_header_id|> <|eot_id|> <tool_call> deep thinking AI"),
    ("mistral", "mistral_json", "none", "[INST] [/INST] [TOOL_CALLS] [AVAILABLE_TOOLS]"),
    ("mistral-small-3.2", "mistral_call_id", "none", "[INST] [/INST] [TOOL_CALLS] [CALL_ID] [ARGS] [SYSTEM_PROMPT]"),
    ("devstral", "mistral_args", "none", "[INST] [/INST] [TOOL_CALLS] [ARGS] [SYSTEM_PROMPT]"),
    ("magistral", "mistral_args", "mistral_think", "[INST] [/INST] [TOOL_CALLS] [ARGS] [THINK] [/THINK]"),
    ("gemma3", "json", "none", "<start_of_turn> <start_of_image> <end_of_turn>"),
    ("gemma4", "gemma4", "gemma4_channel", "<|turn> <turn|> <|tool_call> <|channel> enable_thinking"),
    ("phi3", "json", "none", "<|system|> <|user|> <|assistant|> <|end|>"),
    ("phi4", "json", "none", "<|im_start|> <|im_sep|> <|im_end|>"),
    ("phi4-reasoning", "json", "deepseek_r1", "<|im_start|> <|im_sep|> <|im_end|> <think>"),
    ("phi4-mini", "phi4_mini", "none", "<|tool|> <|/tool|> <|end|> <|assistant|>"),
    ("phi4-mini-reasoning", "json", "deepseek_r1", "Your name is Phi AI math expert developed by Microsoft <|end|>"),
    ("deepseek-v3", "deepseek_v3", "think_tags", "<｜User｜> <｜tool▁calls▁begin｜> '<｜Assistant｜>'"),
    ("deepseek-r1", "deepseek_v3", "deepseek_r1", "<｜User｜> <｜tool▁calls▁begin｜> <｜Assistant｜><think>"),
    ("deepseek-v3.1", "deepseek_v31", "deepseek_r1", "<｜User｜> <｜tool▁calls▁begin｜> <｜Assistant｜></think>"),
    ("deepseek-v3.2", "deepseek_dsml", "deepseek_r1", "<｜User｜> <｜DSML｜function_calls> <｜DSML｜invoke"),
    ("deepseek-v4", "deepseek_dsml_v4", "deepseek_r1", "<｜User｜> '｜DSML｜' tool_calls> thinking"),
    ("glm-4.5", "glm45", "think_tags", "<|observation|> <tool_call> <arg_key> <arg_value> enable_thinking"),
    ("glm-4.7", "glm47", "think_tags", "<|observation|> <tool_call> <arg_key> <arg_value> clear_thinking"),
    ("laguna", "glm47", "think_tags", "<assistant> <tool_call> <arg_key> <arg_value> preserve_thinking"),
    ("gpt-oss", "harmony", "harmony", "<|start|> <|channel|> <|message|> reasoning_effort"),
    ("granite-3", "granite", "granite", "<|start_of_role|> <|end_of_role|> <|tool_call|> thinking"),
    ("granite-4", "hermes_json", "none", "<|start_of_role|> <|end_of_role|> <tool_call> <tool_response>"),
    ("granite-4.2", "qwen3_coder", "think_tags", "<|start_of_role|> <|end_of_role|> <tool_call> <function="),
    ("kimi-k2", "kimi_k2", "think_tags", "<|im_middle|> <|tool_calls_section_begin|> <|tool_call_argument_begin|>"),
    ("kimi-k3", "kimi_k3", "kimi_k3", "<|open|> <|sep|> <|close|> <|end_of_msg|>"),
    ("minimax-m2", "minimax_m2", "deepseek_r1", "<minimax:tool_call> <invoke name= <think> ]~b]ai"),
    (
        "step-3.5", "step", "deepseek_r1",
        "<|im_start|> <im_patch> <tool_call> <function= <parameter= <IMPORTANT> <think> reasoning_content",
    ),
    ("seed-oss", "seed_oss", "seed_think", "<seed:bos> <seed:tool_call> <function= <parameter= <seed:think>"),
    ("nemotron-2", "nemotron", "think_tags", "<TOOLCALL> <AVAILABLE_TOOLS> <SPECIAL_12> enable_thinking"),
    (
        "nemotron-3", "qwen3_coder", "think_tags",
        "<|im_start|> <tool_call> <function= <parameter= <IMPORTANT> <think> enable_thinking reasoning_content "
        "truncate_history_thinking",
    ),
    ("lfm2", "lfm2_pythonic", "none", "<|im_start|> List of tools: <|tool_list_start|>[ <|tool_response_start|>"),
    ("lfm2.5", "lfm2_pythonic", "think_tags", "<|im_start|> List of tools: [ keep_past_thinking"),
    ("command-r", "command_r", "none", "<|START_OF_TURN_TOKEN|> Action:"),
    ("command", "command", "command", "<|START_OF_TURN_TOKEN|> <|START_ACTION|> <|START_THINKING|> Action:"),
    ("smollm2", "none", "none", "<|im_start|> named SmolLM"),
    ("smollm3", "hermes_json", "think_tags", "<|im_start|> xml_tools <tool_call> /no_think enable_thinking <think>"),
    ("olmo3", "olmo3_pythonic", "think_tags", "<|im_start|> <function_calls> <functions>"),
    ("apertus", "apertus", "apertus", "<|tools_prefix|> <|inner_prefix|> enable_thinking"),
    ("exaone-4", "hermes_json", "think_tags", "[|assistant|] [|endofturn|] <tool_call> <think>"),
    ("minicpm5", "minicpm", "think_tags", "<|im_start|> <function name= <param name= <think> enable_thinking"),
    ("ernie-4.5", "hermes_json", "ernie", "<tool_call> <think> <response>"),
    ("jamba", "hunyuan", "none", "<|bom|> <|eom|> <tool_calls>"),
    ("apriel", "hunyuan", "none", "<|user|> <|end|> <|assistant|> <tool_calls> <tool_call> [BEGIN FINAL RESPONSE]"),
    ("mimo", "hermes_json", "think_tags", "<|im_start|> You are MiMo, developed by Xiaomi. <tool_call>"),
    ("cogito", "hermes_json", "think_tags", "<|im_start|> <tool_call> Enable deep thinking subroutine."),
    (
        "bielik", "hermes_json", "think_tags",
        "<|im_start|> <tool_call> <|function_list|> <think> enable_thinking reasoning_content",
    ),
    ("reka-edge", "hermes_json", "think_tags", "<sep> <REKA_IMG_TOKEN> <tool_call> <think>"),
    ("rwkv", "json", "think_tags", "'User: ' 'Assistant:' <think>"),
    ("format-hermes", "hermes_json", "think_tags", "<|someone|> <tool_call> arguments"),
    ("format-qwen-xml", "qwen3_coder", "think_tags", "<|someone|> <tool_call> <function= <parameter="),
    ("format-glm", "glm47", "think_tags", "<|someone|> <tool_call> <arg_key> <arg_value>"),
]  # fmt: skip
BY_TYPE = [
    ("qwen3-coder-next", "qwen3_next", "<|im_start|> <tool_call> <function= <parameter= <IMPORTANT>"),
    ("qwen3-vl", "qwen3_vl_moe", "<|im_start|> <tool_call> <think> reasoning_content"),
    ("gemma3", "gemma3_text", "<start_of_turn>user"),
    ("gemma3n", "gemma3n", "<start_of_turn> <start_of_image>"),
    ("mistral-small-4", "mistral4", "[INST] [/INST] [TOOL_CALLS] [ARGS] [THINK]"),
    ("deepseek-coder-v2", "deepseek_v2", "User: Assistant:"),
    ("deepseek-v3.2", "deepseek_v32", ""),
    ("deepseek-v4", "deepseek_v41", ""),
    ("hunyuan", "hunyuan_v1_dense", "<think> enable_thinking"),
    ("ernie-4.5", "ernie4_5_moe", "User: "),
]


@pytest.mark.parametrize(
    ("name", "tools", "thinking", "template"), TEMPLATES, ids=[f"{i} {row[0]}" for i, row in enumerate(TEMPLATES)]
)
@pytest.mark.parametrize("model_type", ["", "llama"])
def test_a_family_is_recognised_by_its_template_whatever_the_architecture(
    name: str, tools: str, thinking: str, template: str, model_type: str
) -> None:
    found = recognise(checkpoint(model_type=model_type, template=template), FAMILIES.values())
    assert found is not None
    assert (found.family.name, found.family.tool_dialect, found.family.reasoning_dialect) == (name, tools, thinking)


@pytest.mark.parametrize(("name", "model_type", "template"), BY_TYPE, ids=[f"{row[0]} {row[1]}" for row in BY_TYPE])
def test_some_families_need_their_architecture_to_be_told_apart(name: str, model_type: str, template: str) -> None:
    found = recognise(checkpoint(model_type=model_type, template=template), FAMILIES.values())
    assert found is not None
    assert found.family.name == name


def test_every_family_is_in_one_of_the_tables() -> None:
    seen = {row[0] for row in TEMPLATES} | {row[0] for row in BY_TYPE}
    assert FAMILIES.keys() - seen == {GENERIC}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(checkpoint(template=CHATML), id="a llama with another template"),
        pytest.param(checkpoint(template=None), id="no template"),
        pytest.param(checkpoint(model_type="zebra", repo="x/Qwen3-4B-4bit", template=CHATML), id="a name"),
    ],
)
def test_what_says_nothing_of_itself_is_of_no_family(facts: Checkpoint) -> None:
    assert recognise(facts, FAMILIES.values()) is None


def test_the_best_tool_family_never_ties_with_another() -> None:
    for name, _, _, template in TEMPLATES:
        scores = sorted(family.score(checkpoint(model_type="", template=template)) for family in FAMILIES.values())
        assert scores[-1] > scores[-2], name


@pytest.mark.parametrize(
    ("match", "score"),
    [
        (Match(), 0),
        (Match(repo=("*/Llama-*",)), 0),
        (Match(model_type=("llama",)), 100),
        (Match(model_type=("qwen3", "llama")), 100),
        (Match(model_type=("qwen3",), template_has=("<|eot_id|>",)), 0),
        (Match(architectures=("Other", "LlamaForCausalLM")), 100),
        (Match(template_has=("<|eot_id|>",)), 10),
        (Match(template_has=("<|eot_id|>", "<|start_header_id|>")), 20),
        (Match(template_has=("<|eot_id|>", "nothing like it")), 0),
        (Match(model_type=("llama",), repo=("*/Llama-*",)), 105),
        (Match(model_type=("llama",), repo=("*/Qwen-*",)), 0),
    ],
)
def test_all_given_groups_must_hold_and_more_asked_scores_more(match: Match, score: int) -> None:
    assert match.score(checkpoint(repo="meta/Llama-3.1-8B")) == score


def test_among_equals_the_name_decides_whatever_the_order() -> None:
    one, two = (FamilyFile(Family(name), (Match(model_type=("llama",)),), {}) for name in ("a", "b"))
    assert recognise(checkpoint(), [one, two]) == recognise(checkpoint(), [two, one])


def test_a_broken_family_file_says_where() -> None:
    with pytest.raises(Rejected) as rejected:
        load.family("family: x\nmatch: {repo: ['*/x']}\nstopp: {}\nsource: {card: none}\n", "x.yaml")
    assert [(p.code, p.line) for p in rejected.value.problems] == [("E106", 2), ("E102", 3)]


@pytest.mark.parametrize(("name", "text"), load.family_texts(), ids=[name for name, _ in load.family_texts()])
def test_sampling_is_shipped_with_where_it_comes_from_above_it(name: str, text: str) -> None:
    family = FAMILIES[name.removesuffix(".yaml")].family
    if family.sampling != SamplingPatch() or family.modes:
        lines = text.splitlines()
        first = next(i for i, line in enumerate(lines) if line.startswith(("sampling:", "modes:")))
        assert lines[first - 1].startswith("# ")
        assert "https://" in lines[first - 1]


def test_the_index_is_what_the_files_say() -> None:
    shipped = (load_shipped.directory("profiles") / load_families.INDEX).read_text(encoding="utf-8")
    assert shipped == load_families.index_text(), "run `python -m appliance.config.load_families`"


def test_a_family_file_is_called_as_its_family() -> None:
    for name, text in load.family_texts():
        assert load.family(text, name).family.name == name.removesuffix(".yaml")


def test_the_index_recognises_as_the_files_do() -> None:
    for _, _, _, template in TEMPLATES:
        facts = checkpoint(model_type="", template=template)
        assert FAMILIES.recognise(facts) == recognise(facts, FAMILIES.values())


@pytest.fixture
def home(here: Path) -> Path:
    """A user's own directory of family files, beside the deploy file."""
    own = here / "home" / "profiles"
    own.mkdir(parents=True)
    return own


def deployed(home: Path, source: str, found: Checkpoint | None = None) -> ModelSpec:
    Path("deploy.yaml").write_text(f"version: 1\nmodels: {{m: {{source: '{source}'}}}}\n")
    environ = {"APPLIANCE_HOME": str(home.parent)}
    read = load.read(Path("deploy.yaml"), environ=environ, inspect=lambda *_: found, memory_bytes=2**34)
    return read.models["m"]


OWN = """\
family: zebra
match: {model_type: [zebra]}
dialects: {tools: hermes_json}
aliases:
  zebra-1b: {source: "hf:me/Zebra-1B@0123456789012345678901234567890123456789", memory: 2GiB}
  qwen3-4b: {source: "hf:me/Mine"}
source: {card: mine}
"""


def test_a_family_of_the_users_own_is_recognised_and_its_short_names_win(home: Path) -> None:
    (home / "zebra.yaml").write_text(OWN)
    assert deployed(home, "hf:x/y", checkpoint(model_type="zebra")).family.name == "zebra"
    assert deployed(home, "zebra-1b").source.ref == "me/Zebra-1B"
    assert deployed(home, "qwen3-4b").source.ref == "me/Mine"


def test_a_family_of_the_users_own_takes_the_place_of_the_one_shipped(home: Path) -> None:
    (home / "mine.yaml").write_text("family: qwen3\ndialects: {tools: json}\nsource: {card: mine}\n")
    Path("deploy.yaml").write_text("version: 1\nmodels: {m: {source: 'hf:x/y', family: qwen3}}\n")
    environ = {"APPLIANCE_HOME": str(home.parent)}
    found = load.read(Path("deploy.yaml"), environ=environ, inspect=lambda *_: None, memory_bytes=2**34)
    assert found.models["m"].family.tool_dialect == "json"
    assert str(home) in found.files
    assert str(home / "mine.yaml") in found.files


def test_what_is_wrong_with_a_family_of_the_users_own_is_said_with_its_line(home: Path) -> None:
    (home / "a.yaml").write_text("family: a\nstopp: {}\nsource: {card: mine}\n")
    (home / "b.yaml").write_text("family: b\nsource: {card: mine}\n")
    (home / "c.yaml").write_text("family: b\nsource: {card: mine}\n")
    with pytest.raises(Rejected) as rejected:
        deployed(home, "hf:x/y")
    assert [(Path(p.file).name, p.line, p.code) for p in rejected.value.problems] == [
        ("a.yaml", 2, "E102"),
        ("c.yaml", 1, "E103"),
    ]


def test_the_family_of_an_unknown_short_name_is_read_from_its_files(home: Path) -> None:
    short = next(iter(FAMILIES[GENERIC].catalogue))
    assert deployed(home, short).family.name == GENERIC
    assert deployed(home, short, checkpoint()).family.name == "llama3"


@pytest.mark.parametrize(
    ("which", "path"),
    [("family", ("dialects",)), ("deploy", ("models", "*", "dialects"))],
    ids=["of a family", "of a deploy file"],
)
def test_a_schema_names_the_dialects_there_are(which: str, path: tuple[str, ...]) -> None:
    enums = {where: schema["enum"] for where, schema in load.schema(which).properties() if where[:-1] == path}
    rows: dict[str, tuple[Named, ...]] = {"tools": dialects.DIALECTS, "reasoning": reasoning.DIALECTS}
    for key, known in rows.items():
        assert enums[*path, key] == [name for row in known for name in (row.name, *row.aliases) if name]


def test_an_unknown_dialect_is_said_with_the_nearest() -> None:
    with pytest.raises(Rejected) as rejected:
        load.family("family: x\ndialects: {tools: hermes_jsn}\nsource: {card: none}\n", "x.yaml")
    [problem] = rejected.value.problems
    assert (problem.code, problem.hint) == ("E105", "did you mean hermes_json?")
    assert "none of the 1" in problem.message


def test_the_check_of_templates_expects_families_that_exist() -> None:
    assert set(template_families.FAMILIES.values()) <= FAMILIES.keys()
