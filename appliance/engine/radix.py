"""A radix tree of token ids: how its nodes are found, made and taken away, and to what their entries can be cut."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from appliance.engine.backend import Snapshot

Tokens = tuple[int, ...]

_NONE = float("inf")
"""Tokens: where there is no entry."""


@dataclass(eq=False, slots=True)
class Node:
    """`edge` leads here from `parent`; `shortest` is the shortest prefix that an entry at or below can be cut to."""

    parent: "Node | None"
    edge: Tokens
    depth: int
    children: dict[int, "Node"] = field(default_factory=dict)
    snapshot: Snapshot | None = None
    shortest: float = _NONE
    used: float = 0.0


def _common(a: Tokens, b: Tokens) -> int:
    """How many tokens two tuples begin with in common: slices compare in C, so halve instead of walking."""
    low, high = 0, min(len(a), len(b))
    if a[:high] == b[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle
    return low


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """How many tokens two sequences begin with in common."""
    return _common(tuple(a), tuple(b))


def descend(root: Node, tokens: Tokens) -> tuple[Node, int]:
    """The node whose edge the walk ended in or at, and how many tokens it shares with `tokens`."""
    node, common = root, 0
    while common < len(tokens) and (child := node.children.get(tokens[common])) is not None:
        shared = _common(child.edge, tokens[common : common + len(child.edge)])
        node, common = child, common + shared
        if shared < len(child.edge):
            break
    return node, common


def next_stored(node: Node, common: int) -> int | None:
    """The token after the `common` ones, in the edge they end in or the first of those that leave the node."""
    if common < node.depth:
        return node.edge[common - node.depth]
    return next(iter(node.children), None)


def make_path(root: Node, tokens: Tokens) -> Node:
    """The node that stands for exactly these tokens, splitting an edge where it must begin."""
    node, common = descend(root, tokens)
    if common < node.depth:
        node = _split(node, common - (node.depth - len(node.edge)))
    if common < len(tokens):
        child = Node(node, tokens[common:], len(tokens))
        node.children[tokens[common]] = child
        node = child
    return node


def _split(node: Node, at: int) -> Node:
    """Put a node into the edge that leads to `node`, after `at` of its tokens; return the new one."""
    parent = node.parent
    assert parent is not None and 0 < at < len(node.edge)
    upper = Node(parent, node.edge[:at], node.depth - len(node.edge) + at, shortest=node.shortest)
    parent.children[upper.edge[0]] = upper
    node.parent, node.edge = upper, node.edge[at:]
    upper.children[node.edge[0]] = node
    return upper


def prune(node: Node) -> Node | None:
    """Take away a node that holds nothing, and join the edges it was between. Returns the root if reached."""
    while node.parent is not None and node.snapshot is None and not node.children:
        del node.parent.children[node.edge[0]]
        node = node.parent
    if node.parent is None:
        return node
    if node.snapshot is None and len(node.children) == 1:
        (child,) = node.children.values()
        child.parent, child.edge = node.parent, node.edge + child.edge
        node.parent.children[child.edge[0]] = child
    return None


def reckon(node: Node | None) -> None:
    """Work out anew what a node and those above it can be cut to."""
    while node is not None:
        below = min((child.shortest for child in node.children.values()), default=_NONE)
        now = below if node.snapshot is None else min(below, node.snapshot.shortest)
        if now == node.shortest:
            return
        node.shortest = now
        node = node.parent


def entry_below(node: Node, usable: int) -> Node:
    """The entry of a subtree that can be cut to so many tokens; the first on one path, so the cheapest to copy."""
    while node.snapshot is None or node.snapshot.shortest > usable:
        node = next(child for child in node.children.values() if child.shortest <= usable)
    return node
