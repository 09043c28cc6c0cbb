"""Rows of tokens: every token but the first is a target exactly once, and conversations stay whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sixfold.data.packing import Packer, Stretch, WholePacker

LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=12)


def stretches(lengths: list[int], are_new: list[bool] | None = None) -> list[Stretch]:
    """Stretches of tokens that are numbered throughout."""
    found, first = list[Stretch](), 0
    for number, length in enumerate(lengths):
        is_new = are_new[number] if are_new else True
        found.append(Stretch({"tokens": range(first, first + length)}, line=number + 1, is_new=is_new))
        first += length
    return found


@given(lengths=LENGTHS, context=st.integers(2, 17))
def test_every_token_but_the_first_is_a_target_once(lengths: list[int], context: int) -> None:
    packer = Packer(context)
    rows = [row for each in stretches(lengths) for row in packer.add([each])] + [*packer.rest()]
    targets = [token for row in rows for token in row.columns["tokens"][1:]]
    assert targets == [*range(1, sum(lengths))]
    assert all(len(row.columns["tokens"]) == context + 1 for row in rows[:-1])


@given(lengths=LENGTHS, context=st.integers(2, 17))
def test_all_rows_to_train_on_are_full_where_there_is_enough_text(lengths: list[int], context: int) -> None:
    packer = Packer(context)
    rows = [*packer.add(stretches(lengths)), *packer.full_rest()]
    if sum(lengths) > context:
        assert {len(row.columns["tokens"]) for row in rows} == {context + 1}
    targets = {token for row in rows for token in row.columns["tokens"][1:]}
    assert targets == {*range(1, sum(lengths))}


@given(lengths=LENGTHS, context=st.integers(2, 17), data=st.data())
def test_the_places_where_documents_begin_are_known(lengths: list[int], context: int, data: st.DataObject) -> None:
    are_new = data.draw(st.lists(st.booleans(), min_size=len(lengths), max_size=len(lengths)))
    given_stretches, packer = stretches(lengths, are_new), Packer(context)
    begins = {each.columns["tokens"][0] for each in given_stretches if each.is_new}
    for row in [*packer.add(given_stretches), *packer.full_rest()]:
        tokens = row.columns["tokens"]
        assert [tokens[start] for start in row.columns["starts"]] == [token for token in tokens if token in begins]


@given(lengths=st.lists(st.integers(1, 18), min_size=1, max_size=300))
def test_conversations_stay_whole_and_none_is_lost(lengths: list[int]) -> None:
    packer = WholePacker(context=17)
    rows = [*packer.add(stretches(lengths)), *packer.rest()]
    found = sorted(
        tuple(row.columns["tokens"][begin:end])
        for row in rows
        for begin, end in zip(
            row.columns["starts"], [*row.columns["starts"][1:], len(row.columns["tokens"])], strict=True
        )
    )
    assert found == sorted(tuple(each.columns["tokens"]) for each in stretches(lengths))
    assert all(len(row.columns["tokens"]) <= 18 for row in rows)
