"""How OpenAI's lists are cut into pages: `after`, `limit` and `order`."""

from collections.abc import Mapping, Sequence
from typing import Any

from appliance.errors import BadRequest


def page(
    items: Sequence[dict[str, Any]], query: Mapping[str, str], *, most: int = 100, usual: int = 20
) -> dict[str, Any]:
    """The page asked for of `items`, which have ids and stand oldest first; newest first unless `order=asc`.

    Raises BadRequest.
    """
    order = query.get("order", "desc")
    if order not in ("asc", "desc"):
        raise BadRequest("`order` must be asc or desc", param="order")
    ordered = list(items) if order == "asc" else list(items[::-1])
    ids = [item["id"] for item in ordered]
    if (after := query.get("after")) in ids:
        ordered = ordered[ids.index(after) + 1 :]
    shown = ordered[: limit(query.get("limit"), most, usual)]
    return {
        "object": "list",
        "data": shown,
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
        "has_more": len(ordered) > len(shown),
    }


def limit(text: str | None, most: int, usual: int) -> int:
    """How many are shown: what is asked, `usual` where nothing is. Raises BadRequest."""
    if text is None:
        return usual
    if not text.isascii() or not text.isdecimal() or len(text) > 9 or not 1 <= int(text) <= most:
        raise BadRequest(f"`limit` must be an integer from 1 to {most}", param="limit")
    return int(text)
