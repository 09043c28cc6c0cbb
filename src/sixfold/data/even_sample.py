"""An evenly spaced sample of a stream of unknown length."""

from __future__ import annotations

from typing import Generic, TypeVar

Item = TypeVar("Item")


class EvenSample(Generic[Item]):
    """At most twice `most` of the items offered, evenly spaced; all of them if there are fewer."""

    def __init__(self, most: int) -> None:
        self.most, self.distance, self.num_offered = most, 1, 0
        self.items: list[Item] = []

    def offer(self, item: Item) -> None:
        """Keep the item if it is due; when there are too many, drop every second one."""
        if self.num_offered % self.distance == 0:
            self.items.append(item)
            if len(self.items) > 2 * self.most:
                del self.items[1::2]
                self.distance *= 2
        self.num_offered += 1
