"""The tree that a beam search walked: every extension it looked at, kept or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from sixfold.decode.search import NEVER, BeamStep, length_penalty

Fate = Literal["kept", "ended", "pruned", "left"]  # left: still open when nothing open could win any more
ROOT = -1
DECIMALS = 5  # more cannot be seen


@dataclass(frozen=True)
class Node:
    """One token after its parent's tokens."""

    step: int  # from 0
    parent: int  # place in the list of nodes, ROOT for the first tokens
    piece: str
    log_probability: float  # of this token, after those before it
    total: float  # of all tokens up to here
    score: float  # the total divided by the length penalty
    fate: Fate


@dataclass(frozen=True)
class BeamTree:
    """All nodes, step by step and best first within a step."""

    beam: int
    alpha: float  # of the length penalty
    nodes: tuple[Node, ...]
    winner: int  # the node that ends the translation


def beam_tree(
    steps: Sequence[BeamStep],
    chosen: Sequence[int],
    beam: int,
    alpha: float,
    pieces: Callable[[Sequence[int]], list[str]],
) -> BeamTree:
    """Return the tree of one sentence's steps and where the chosen tokens are; `pieces` says how to write them."""
    nodes: list[Node] = []
    open_ends = [ROOT]  # the nodes that the next step extends, in the order of its parents
    for number, step in enumerate(steps):
        going_on, is_last = [], number + 1 == len(steps)
        for i, piece in enumerate(pieces(step.tokens)):
            if step.scores[i] == NEVER:
                continue
            if step.went_on[i]:
                going_on.append(len(nodes))
            nodes.append(new_node(nodes, open_ends[step.parents[i]], step, i, piece, alpha, is_last))
        open_ends = going_on
    return BeamTree(beam, alpha, tuple(nodes), place_of(nodes, pieces(chosen)))


def place_of(nodes: Sequence[Node], written: Sequence[str]) -> int:
    """Return the node that ends what is written so."""
    place = ROOT
    for piece in written:
        children = {node.piece: i for i, node in enumerate(nodes) if node.parent == place}
        place = children[piece]
    return place


def new_node(
    nodes: Sequence[Node], parent: int, step: BeamStep, place: int, piece: str, alpha: float, is_last: bool
) -> Node:
    """Return the node of one extension of a step."""
    total = step.scores[place]
    own = total - (nodes[parent].total if parent != ROOT else 0.0)
    score = total / length_penalty(float(step.length), alpha)
    own, total, score = (round(number, DECIMALS) for number in (own, total, score))
    return Node(step.length - 1, parent, piece, own, total, score, fate(step, place, is_last))


def fate(step: BeamStep, place: int, is_last: bool) -> Fate:
    """Return what became of an extension."""
    if step.ended[place]:
        return "ended"
    if step.went_on[place]:
        return "left" if is_last else "kept"
    return "pruned"
