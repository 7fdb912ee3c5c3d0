"""Which snapshot serves a prompt, and which ones stay."""

import random
from dataclasses import dataclass

import pytest

from appliance.engine.prefix_cache import PINNED, PrefixCache, reason
from appliance.engine.radix import common_prefix


@dataclass(frozen=True)
class Kept:
    tokens: tuple[int, ...]
    trim: bool = True
    nbytes: int = 10
    exact_to: int = 0

    @property
    def length(self) -> int:
        return len(self.tokens)

    @property
    def shortest(self) -> int:
        """What is longer than `exact_to` cannot be cut to less than that."""
        if not self.trim:
            return self.length
        return self.exact_to if self.length > self.exact_to else 0


def cache_of(*entries: Kept, budget: int = 1000) -> PrefixCache:
    cache = PrefixCache(budget)
    for entry in entries:
        cache.insert(entry.tokens, entry)
    return cache


def t(text: str) -> tuple[int, ...]:
    return tuple(map(ord, text))


@pytest.mark.parametrize(
    ("entries", "prompt", "length"),
    [
        pytest.param([], "abc", 0, id="nothing there"),
        pytest.param([("abc", True)], "abcdef", 3, id="an entry begins the prompt"),
        pytest.param([("abc", False)], "abcdef", 3, id="which needs no trimming"),
        pytest.param([("abc", True)], "abc", 2, id="one token is always left to compute"),
        pytest.param([("abc", False)], "abc", 0, id="which an entry that cannot be trimmed cannot give"),
        pytest.param([("abcdef", True)], "abcx", 3, id="an entry is trimmed to what is common"),
        pytest.param([("abcdef", False)], "abcx", 0, id="if it can be"),
        pytest.param([("ab", False), ("abcdef", False)], "abcdx", 2, id="else the longest exact one"),
        pytest.param(
            [("ab", False), ("abcd", False), ("abcx", True)], "abcdz", 4, id="exact beats trimmed if longer"
        ),
        pytest.param([("ab", False), ("abcx", True)], "abcdz", 3, id="trimmed beats exact if longer"),
        pytest.param([("abcd", False), ("abxy", True)], "abcq", 2, id="a trimmed one from a branch further up"),
        pytest.param([("xyz", True)], "abc", 0, id="another beginning"),
        pytest.param([("abc", True)], "a", 0, id="a prompt of one token"),
        pytest.param([("abc", True)], "", 0, id="an empty prompt"),
    ],
)
def test_the_longest_usable_prefix_is_found(entries, prompt, length):
    cache = cache_of(*(Kept(t(text), trim) for text, trim in entries))
    match = cache.match(t(prompt))
    assert match.length == length
    assert (match.snapshot is None) == (length == 0)


def test_namespaces_do_not_see_each_other():
    cache = PrefixCache(100)
    cache.insert(t("abc"), Kept(t("abc")), "one")
    assert cache.match(t("abcd"), "one").length == 3
    assert cache.match(t("abcd"), "two").length == cache.match(t("abcd")).length == 0


def test_the_least_recently_used_goes_first():
    a, b, c = Kept(t("a1")), Kept(t("b1")), Kept(t("c1"))
    cache = cache_of(a, b, budget=20)
    assert cache.match(t("a1x")).length == 2
    cache.insert(c.tokens, c)
    assert [cache.match(t(text)).length for text in ("a1x", "b1x", "c1x")] == [2, 0, 2]
    assert cache.bytes == 20


@pytest.mark.parametrize(
    ("first", "second", "entries"),
    [
        pytest.param(Kept(t("ab")), Kept(t("abcd")), 1, id="a longer one that can be trimmed replaces a shorter"),
        pytest.param(Kept(t("abcd")), Kept(t("ab")), 1, id="a shorter one is not needed beside it"),
        pytest.param(Kept(t("ab")), Kept(t("abcd"), trim=False), 2, id="one that cannot be trimmed replaces nothing"),
        pytest.param(Kept(t("abcd"), trim=False), Kept(t("ab")), 2, id="nor stands for a shorter one"),
        pytest.param(Kept(t("abc")), Kept(t("abd")), 2, id="branches stand beside each other"),
        pytest.param(Kept(t("abc")), Kept(t("abc")), 1, id="the same tokens are one entry"),
    ],
)
def test_superfluous_entries_are_dropped(first, second, entries):
    cache = cache_of(first, second)
    assert (len(cache), cache.bytes) == (entries, 10 * entries)
    for entry in (first, second):
        assert cache.match((*entry.tokens, 0)).length == entry.length


def test_a_snapshot_over_the_whole_budget_is_not_kept():
    cache = cache_of(Kept(t("ab")), Kept(t("xy"), nbytes=31), budget=30)
    assert cache.match(t("ab-")).length == 2
    assert cache.match(t("xy-")).length == 0


def test_a_budget_of_nothing_keeps_nothing():
    cache = cache_of(Kept(t("ab")), budget=0)
    assert not cache.enabled
    assert (len(cache), cache.bytes, cache.match(t("abc")).length) == (0, 0, 0)


def test_a_smaller_budget_counts_at_once():
    cache = cache_of(Kept(t("ab")), Kept(t("xy")))
    cache.resize(10)
    assert (len(cache), cache.bytes) == (1, 10)
    assert cache.match(t("xyz")).length == 2


def best(inserted: list[tuple[str, Kept]], tokens: tuple[int, ...], namespace: str) -> int:
    most, lengths = len(tokens) - 1, [0]
    for where, entry in inserted:
        if where == namespace:
            shared = min(common_prefix(entry.tokens, tokens), most)
            lengths.append(shared if shared >= entry.shortest else 0)
    return max(lengths)


@pytest.mark.parametrize(
    ("trims", "exact_to"),
    [
        pytest.param((True,), 0, id="trimmable"),
        pytest.param((False,), 0, id="exact"),
        pytest.param((True, False), 0, id="mixed"),
        pytest.param((True,), 3, id="trimmable to a length"),
        pytest.param((True, False), 3, id="all of these"),
    ],
)
def test_a_walk_finds_what_comparing_with_every_entry_finds(trims, exact_to):
    draw = random.Random(3)
    for _ in range(150):
        cache, inserted = PrefixCache(10**9), []
        for _ in range(60):
            tokens = tuple(draw.choices((1, 2, 3), weights=(6, 2, 1), k=draw.randint(1, 9)))
            namespace = draw.choice(("", "b"))
            if draw.random() < 0.5:
                entry = Kept(tokens, draw.choice(trims), draw.randint(1, 9), exact_to)
                cache.insert(tokens, entry, namespace)
                inserted.append((namespace, entry))
            match = cache.match(tokens, namespace)
            assert match.length == best(inserted, tokens, namespace)
            if match.snapshot is not None:
                assert match.snapshot.tokens[: match.length] == tokens[: match.length]
                assert match.snapshot.trim or match.snapshot.length == match.length


def test_a_walk_never_leaves_the_budget_and_keeps_what_came_last():
    draw = random.Random(4)
    for _ in range(100):
        budget = draw.randint(10, 60)
        cache = PrefixCache(budget)
        for _ in range(80):
            tokens = tuple(draw.choices((1, 2, 3), k=draw.randint(1, 8)))
            entry = Kept(tokens, draw.random() < 0.7, draw.randint(1, 20))
            cache.insert(tokens, entry)
            assert cache.bytes <= budget
            if entry.nbytes <= budget:
                assert cache.match((*tokens, 9)).length == len(tokens)
            if draw.random() < 0.05:
                budget = draw.randint(0, 60)
                cache.resize(budget)
        cache.resize(0)
        assert (len(cache), cache.bytes) == (0, 0)
        assert cache.match((1, 2, 3)).length == 0


@pytest.mark.parametrize(
    ("a", "b", "shared"), [("", "", 0), ("a", "", 0), ("abc", "abd", 2), ("abc", "abc", 3), ("xabc", "abc", 0)]
)
def test_common_prefix_counts_equal_tokens(a, b, shared):
    assert common_prefix(t(a), t(b)) == common_prefix(t(b), t(a)) == shared


@pytest.mark.parametrize(
    ("entries", "prompt", "told"),
    [
        pytest.param([], "abc", ("new", 0, 0, None), id="nothing there"),
        pytest.param([("xyz", True)], "abc", ("new", 0, 0, "x"), id="another beginning"),
        pytest.param([("abc", True)], "abcdef", ("longer", 3, 3, None), id="the prompt goes on"),
        pytest.param([("abc", True)], "abc", ("whole", 2, 3, None), id="the same again: all but the last token"),
        pytest.param([("abcdef", True)], "abc", ("whole", 2, 3, None), id="the beginning of what is stored"),
        pytest.param([("abcdef", True)], "abcx", ("whole", 3, 3, "d"), id="another last token"),
        pytest.param([("abcdef", True)], "abcxyz", ("differs", 3, 3, "d"), id="another question"),
        pytest.param([("ab", True), ("abcdef", False)], "abcxyz", ("uncut", 2, 3, "d"), id="more than can be used"),
        pytest.param([("abc", False)], "abc", ("uncut", 0, 3, None), id="not even all but the last token"),
    ],
)
def test_a_match_tells_why_it_is_no_longer(entries, prompt, told):
    match = cache_of(*(Kept(t(text), trim) for text, trim in entries)).match(t(prompt))
    stored = chr(match.stored) if match.stored is not None else None
    assert (reason(match, len(prompt)), match.length, match.shared, stored) == told


@pytest.mark.parametrize(
    ("entry", "tokens", "covered"),
    [
        pytest.param(("abc", True), "ab", True, id="a longer one that can be cut"),
        pytest.param(("abc", False), "ab", False, id="a longer one that cannot"),
        pytest.param(("abc", False), "abc", True, id="the same"),
        pytest.param(("abc", True), "abcd", False, id="a shorter one"),
    ],
)
def test_it_knows_whether_an_entry_stands_for_these_tokens(entry, tokens, covered):
    cache = cache_of(Kept(t(entry[0]), entry[1]))
    assert cache.covers(t(tokens)) == covered
    assert not cache.covers(t(tokens), "elsewhere")


def test_what_turns_out_not_to_be_there_is_forgotten():
    there, gone = Kept(t("abc")), Kept(t("abd"))
    cache = cache_of(there, gone)
    cache.discard(gone)
    assert (len(cache), cache.match(t("abdx")).length, cache.match(t("abcx")).length) == (1, 2, 3)


class Noted:
    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def kept(self, tokens, snapshot, namespace):
        self.told.append(("kept", "".join(map(chr, tokens))))

    def dropped(self, snapshot, *, superfluous):
        self.told.append(("superfluous" if superfluous else "dropped", "".join(map(chr, snapshot.tokens))))


def test_whoever_watches_is_told_what_comes_and_goes_and_why():
    watcher = Noted()
    cache = PrefixCache(20, watcher)
    for text in ("ab", "abc", "xy", "uv"):
        cache.insert(t(text), Kept(t(text)))
    assert watcher.told == [
        ("kept", "ab"), ("superfluous", "ab"), ("kept", "abc"), ("kept", "xy"), ("kept", "uv"), ("dropped", "abc"),
    ]  # fmt: skip


def test_what_was_not_used_for_its_time_to_live_is_forgotten_unless_it_is_pinned():
    cache = PrefixCache(100)
    for now, text, namespace in ((0, "ab", ""), (1, "xy", ""), (1, "uv", PINNED)):
        cache.pass_to(now, 10)
        cache.insert(t(text), Kept(t(text)), namespace)
    cache.pass_to(9, 10)
    assert cache.match(t("ab-")).length == 2  # a use
    cache.pass_to(12, 10)
    assert [cache.match(t(text)).length for text in ("ab-", "xy-", "uv-")] == [2, 0, 2]


def test_what_is_pinned_is_found_in_every_namespace_and_never_makes_room():
    cache = PrefixCache(20)
    cache.insert(t("ab"), Kept(t("ab")), PINNED)
    for text in ("x1", "y2", "z3"):
        cache.insert(t(text), Kept(t(text)))
    assert cache.match(t("ab-"), "somebody").length == 2
    cache.insert(t("abc"), Kept(t("abc")), "somebody")
    assert cache.match(t("abcd"), "somebody").length == 3
    assert cache.bytes == 20
    cache.insert(t("long"), Kept(t("long"), nbytes=11))
    assert cache.match(t("long-")).length == 0, "there is no room for it beside what is pinned"
    cache.clear(PINNED)
    assert cache.match(t("ab-"), "else").length == 0
