"""Which known word somebody probably meant."""

from collections.abc import Iterable


def distance(a: str, b: str, limit: int) -> int:
    """Edits (insert, delete, replace, swap neighbours) from a to b; anything above `limit` is `limit` + 1."""
    if abs(len(a) - len(b)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        older, before, row = before, row, [i]
        for j, y in enumerate(b, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y))
            if older and j > 1 and x == b[j - 2] and a[i - 2] == y:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
        if min(row) > limit:
            return limit + 1
    return row[-1]


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word closest to `word`, where one is close: a third of its letters may differ."""
    limit = max(1, (len(word) + 1) // 3)
    letters = set(word)
    best, best_distance = None, limit + 1
    for candidate in known:
        # Cheap before exact: each differing letter costs at least half an edit.
        if abs(len(candidate) - len(word)) >= best_distance or len(letters ^ set(candidate)) > 2 * limit:
            continue
        found = distance(word, candidate, best_distance - 1)
        if found < best_distance:
            best, best_distance = candidate, found
    return best


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint, or nothing."""
    found = nearest(word, known)
    return f"did you mean {found}?" if found else ""
