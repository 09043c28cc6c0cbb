"""What was tried for training and not kept, so that anyone can try it again: `sixfold` with one thing changed.

    python benchmarks/not_kept.py muon train train.en train.de -o model --minutes 5

- `muon`: Muon (Jordan 2024) for the matrices inside the layers, Adam for the rest.
- `r-drop`: R-Drop (Liang et al. 2021): every pair twice, with other dropout, and a price for what then differs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from sixfold.kernels import prepare  # isort: skip

prepare()  # before torch is loaded
import torch
import torch.nn.functional as F
from sixfold.text.tokens import PAD_ID
from sixfold.training.loss import MemberLoss
from torch import Tensor, nn

import sixfold.training.loop
from sixfold.cli import main
from sixfold.training.optimizer import BETAS, EPSILON

MOMENTUM, ITERATIONS = 0.95, 5
QUINTIC = (3.4445, -4.7750, 2.0315)  # of the iteration that brings singular values near 1
LIKE_ADAM = 0.2  # the root mean square of Adam's steps, about, so that one learning rate serves both
ALPHA = 5.0  # R-Drop's price


class Muon(torch.optim.Adam):
    """Adam, but matrices inside the layers move by their momentum made orthogonal, in square blocks."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model.parameters(), lr=0.0, betas=BETAS, eps=EPSILON, fused=True)
        inside = [(name, each) for name, each in model.named_parameters() if "layers" in name]
        self.matrices = [each for _, each in inside if each.dim() == 2]

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Move the matrices, then everything else."""
        rate = self.param_groups[0]["lr"]
        blocks = [block for matrix in self.matrices for block in square_blocks(self.momentum(matrix))]
        updates = iter(orthogonal(torch.stack(blocks)))
        for matrix in self.matrices:
            for block in square_blocks(matrix):
                block.sub_(next(updates), alpha=rate * LIKE_ADAM * block.size(0) ** 0.5)
            matrix.grad = None
        return super().step(closure)

    def momentum(self, matrix: Tensor) -> Tensor:
        """Add a gradient to what is remembered of those before, and return where it leads (Nesterov)."""
        assert matrix.grad is not None
        state = self.state[matrix]
        remembered = state.setdefault("exp_avg", torch.zeros_like(matrix))
        remembered.lerp_(matrix.grad, 1 - MOMENTUM)
        return matrix.grad.lerp(remembered, MOMENTUM)


def square_blocks(matrix: Tensor) -> list[Tensor]:
    """Return a matrix in squares, as wide as its shorter side."""
    side = min(matrix.shape)
    return [block for rows in matrix.split(side) for block in rows.split(side, dim=1)]


def orthogonal(blocks: Tensor) -> Tensor:
    """Bring the singular values of each matrix near 1 (Newton and Schulz)."""
    x = blocks / (blocks.flatten(1).norm(dim=1)[:, None, None] + 1e-7)
    a, b, c = QUINTIC
    for _ in range(ITERATIONS):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x


def r_drop(self: MemberLoss, source: Tensor, target_in: Tensor, target_out: Tensor) -> Tensor:
    """Return the mean loss of two passes, and what it costs that they differ."""
    targets = target_out.flatten()
    real = (targets != PAD_ID).nonzero()[:, 0]
    hidden = self.model.hidden(source.repeat(2, 1), target_in.repeat(2, 1)).flatten(0, 1)
    rows = hidden.index_select(0, torch.cat([real, real + len(targets)]))
    logits = self.model.embedding.logits(rows)
    loss = F.cross_entropy(
        logits, targets.index_select(0, real).repeat(2), label_smoothing=self.smoothing, reduction="sum"
    )
    first, second = logits.log_softmax(dim=-1).chunk(2)
    difference = ((first.exp() - second.exp()) * (first - second)).sum() / 2  # the mean of both directions
    return (loss + ALPHA * difference) / 2


def change(name: str) -> None:
    """Put one of the changes into this process."""
    if name == "muon":
        sixfold.training.loop.make_adam = Muon
    elif name == "r-drop":
        MemberLoss.forward = r_drop
    else:
        raise SystemExit(f"there is no {name!r}: muon or r-drop")


if __name__ == "__main__":
    change(sys.argv.pop(1) if len(sys.argv) > 1 else "")
    main()
