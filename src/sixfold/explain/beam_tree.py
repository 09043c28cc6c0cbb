"""The tree of a beam search: every extension that it considered, kept or pruned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from sixfold.decode.search import NEVER, BeamStep, length_penalty

Fate = Literal["kept", "ended", "pruned", "left"]  # left: unfinished when the search stopped
ROOT = -1
DECIMALS = 5  # as many as the page shows


@dataclass(frozen=True)
class TreeNode:
    """One token of a hypothesis; its parent is the token before."""

    step: int  # from 0
    parent: int  # index in the list of nodes; ROOT for the first tokens
    piece: str
    log_probability: float  # of this token, given those before it
    total: float  # of all tokens up to here
    score: float  # the total divided by the length penalty
    fate: Fate


@dataclass(frozen=True)
class BeamTree:
    """All nodes, ordered by step and within a step best first."""

    beam: int
    alpha: float  # exponent of the length penalty
    nodes: tuple[TreeNode, ...]
    winner: int  # the last token of the translation


def beam_tree(
    steps: Sequence[BeamStep],
    chosen: Sequence[int],
    beam: int,
    alpha: float,
    pieces: Callable[[Sequence[int]], list[str]],
) -> BeamTree:
    """Return the tree of a search; `pieces` maps token ids to text, `chosen` are the ids of the translation."""
    nodes: list[TreeNode] = []
    open_ends = [ROOT]  # the hypotheses that the next step extends, in the order of `step.parents`
    for number, step in enumerate(steps):
        going_on, is_last = [], number + 1 == len(steps)
        for i, piece in enumerate(pieces(step.tokens)):
            if step.scores[i] == NEVER:
                continue
            if step.went_on[i]:
                going_on.append(len(nodes))
            nodes.append(new_node(nodes, open_ends[step.parents[i]], step, i, piece, alpha, is_last))
        open_ends = going_on
    return BeamTree(beam, alpha, tuple(nodes), node_at(nodes, pieces(chosen)))


def node_at(nodes: Sequence[TreeNode], pieces: Sequence[str]) -> int:
    """Return the node at which these tokens end."""
    place = ROOT
    for piece in pieces:
        children = {node.piece: i for i, node in enumerate(nodes) if node.parent == place}
        place = children[piece]
    return place


def new_node(
    nodes: Sequence[TreeNode], parent: int, step: BeamStep, place: int, piece: str, alpha: float, is_last: bool
) -> TreeNode:
    """Return the node for one extension of a step."""
    total = step.scores[place]
    own = total - (nodes[parent].total if parent != ROOT else 0.0)
    score = total / length_penalty(float(step.length), alpha)
    own, total, score = (round(number, DECIMALS) for number in (own, total, score))
    return TreeNode(step.length - 1, parent, piece, own, total, score, fate(step, place, is_last))


def fate(step: BeamStep, place: int, is_last: bool) -> Fate:
    """Return whether an extension was kept, ended, pruned or left."""
    if step.ended[place]:
        return "ended"
    if step.went_on[place]:
        return "left" if is_last else "kept"
    return "pruned"
