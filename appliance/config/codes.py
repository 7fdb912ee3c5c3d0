"""The codes of problems: one row each, with what `validate --explain` says about it."""

from collections.abc import Mapping

CODES: Mapping[str, tuple[str, str]] = {
    "E101": (
        "not YAML",
        "The text cannot be read as YAML 1.2. The place is where the reader gave up, which may be a line below the "
        "fault: look for a missing quote, a missing colon, or a tab in the indentation.",
    ),
    "E102": (
        "unknown key",
        "No such key exists here. Every object is closed, so that a misspelt key is never ignored. Keys beginning "
        "with `x-` are yours: put notes and anchors there.",
    ),
    "E103": (
        "duplicate key",
        "A key stands twice in one object. YAML readers would silently keep one of the two. Names of headers are the "
        "same whatever their case, and so are the ids of tokens with zeros before them.",
    ),
    "E104": (
        "wrong type",
        "A value of another kind is needed here: text, number, true/false, list or object. Only `true` and `false` "
        "are booleans; `yes`, `on` and `no` are text. Quote a number that is meant as text.",
    ),
    "E105": (
        "value not allowed",
        "The kind is right, the value is not: outside its range, not one of the words, or without its unit. "
        "Durations are 300ms, 15s, 5m, 2h, 7d; sizes 512MiB, 8GiB or, for memory, 75%; tokens 4096 or 32k.",
    ),
    "E106": (
        "missing key",
        "A key without a default is not there. Only `version` and one model with a `source` are needed.",
    ),
    "E107": (
        "empty file",
        "The file holds nothing. An empty file never means `remove everything`; the smallest one has `version: 1` "
        "and one model.",
    ),
    "E108": (
        "unreadable file",
        "A file cannot be read: it is missing, is a directory, is not UTF-8, or may not be opened.",
    ),
    "E109": (
        "substitution failed",
        "`${env:NAME}` and `${file:path}` must exist, unless a default is given: `${env:NAME:-default}`. "
        "`${env:NAME:?message}` says what to do when it is missing. A plain dollar before a brace is written `$$`.",
    ),
    "E110": (
        "not available in this version",
        "The key belongs to the language, but this version has no machinery for it. Nothing is ignored silently, "
        "so the file is refused.",
    ),
    "E111": (
        "load-time key in a request-time place",
        "Profiles and aliases hold what may differ from request to request: sampling, template variables and "
        "policy. What decides how a model is loaded is a setting of the model; for another load, add another model.",
    ),
    "E112": (
        "bad name",
        "Names of models, profiles and cache policies have no spaces, no `:` (which separates a profile in a "
        "request) and none of `*?[]`. Aliases may be globs.",
    ),
    "E113": (
        "YAML feature not understood",
        "Tags other than the core ones, keys that are not plain text, anchors that contain themselves and files "
        "that unfold to millions of values are refused.",
    ),
    "E114": (
        "stands in two files",
        "A model, alias or setting stands in one file only, so that it is clear which one to edit. Blocks like "
        "`server` may be spread over files, each key in one of them. `version` and `include` stand in the first.",
    ),
    "E201": ("unknown model", "An alias, a rule, a key or `extends` names a model or alias that is not in the file."),
    "E202": ("unknown profile", "A `profile` that is not under `profiles`."),
    "E203": ("unknown cache policy", "A `cache` that is neither under `cache` nor one of `chat` and `none`."),
    "E204": (
        "cycle",
        "Aliases that lead back to themselves never reach a model; nor can a model extend or replace itself.",
    ),
    "E205": (
        "chain too long",
        "An alias may name another alias, and that one must name a model. Models extend one another four deep.",
    ),
    "E206": ("one name for two things", "A name is a model, an alias or a virtual name, not two of them."),
    "E207": (
        "bad source",
        "A source is a short name, hf:owner/name, a path beginning with / ./ or ~, fake: or pypi:.",
    ),
    "E209": ("missing file", "A file or directory named in the configuration does not exist."),
    "E210": ("locks disagree", "Two layers of one model or alias lock the same parameter to different values."),
    "E211": ("lock outside clamp", "A locked value lies outside the bounds another layer sets."),
    "E212": ("empty bounds", "The bounds of several layers have nothing in common, or the lower is above the upper."),
    "E213": (
        "impossible memory",
        "The models that must be in memory cannot fit the budget, or the budget the machine. "
        "Weights are counted as they lie on disk, so this is a lower bound.",
    ),
    "E214": ("unknown family", "A `family` that no family file describes."),
    "E215": ("revision does not fit", "Only hf: sources have a revision, and it is given once."),
    "E216": (
        "bad listen address",
        "An address that cannot be listened on, stands twice, is another program's already, or is one that other "
        "machines can reach while nothing asks them for a key.",
    ),
    "E217": (
        "unreadable checkpoint",
        "The model's files are there, but what they say of themselves cannot be read: config.json is missing or bad.",
    ),
    "E218": ("keys with the same secret", "A secret says which key it is, so each key needs its own."),
    "E219": (
        "rules with the same name",
        "Logs and headers name the rule that decided: each needs a name of its own.",
    ),
    "E220": (
        "dead rule",
        "Rules apply to the names under `routing.virtual` alone, and the first that holds decides. This one can "
        "never hold, or those before it take everything. Of aliases that are globs the longest that fits is "
        "followed: one of which a longer one takes every name is dead, too.",
    ),
    "E221": ("unknown key", "A rule asks for a key that is not under `security.keys`."),
    "E222": ("unknown peer", "`peer/model` names a peer that is not under `routing.peers`."),
    "E224": (
        "draft model does not fit",
        "`speculative.kind: draft` guesses with a second, small model, which `draft` names; other kinds have none.",
    ),
    "E226": ("unknown adapter", "An alias names an adapter that is not among its model's `adapters`."),
    "E225": (
        "keys and values cannot have this form",
        "`kv`, `max_kv` and the `bits` of a cache policy need caches that grow by whole tokens: sliding windows and "
        "compressed ones (MLA) cannot be quantized, nor can a window be put over them.",
    ),
    "E240": (
        "path in use",
        "The dashboard and the metrics have paths of their own, where nothing of the API can be, nor the other one.",
    ),
    "W301": (
        "no family matched",
        "No family file recognises this checkpoint: its template's switches, tool calls and reasoning are treated "
        "generically. Name a `family`, or write a family file.",
    ),
    "W302": (
        "another form of keys and values",
        "Models with the same weights share one engine, which has one form of keys and values, and one of "
        "stored prefixes: the most exact that one of them asks for. Give all of them the same `kv` and cache policy.",
    ),
}
