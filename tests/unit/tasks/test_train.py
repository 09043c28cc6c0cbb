"""`sixfold.train` in Python: what it says, and its two forms."""

from __future__ import annotations

from pathlib import Path

import pytest

import sixfold
from sixfold.errors import ConfigError
from sixfold.training.progress import PlainLines

SETTINGS = [
    "model.layers=1", "model.d_model=16", "model.heads=2", "model.d_ff=32", "data.vocabulary=300",
    "train.batch_tokens=128", "train.steps=4", "train.checkpoint_every=2", "train.valid_sentences=4",
]  # fmt: skip


pytestmark = pytest.mark.usefixtures("one_core")


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small corpus in the folder one is in."""
    monkeypatch.chdir(tmp_path)
    words = ("red", "green", "blue", "white", "black")
    lines = [f"{words[i % 5]} {words[i // 5 % 5]} {words[i // 25]}\n" for i in range(100)]
    Path("a.en").write_text("".join(lines))
    Path("a.de").write_text("".join(line.replace("e", "ö") for line in lines))


def test_it_says_what_the_command_says_unless_it_is_told_to_be_silent(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = sixfold.train(["a.en", "a.de"], "loud", settings=SETTINGS)
    said = capsys.readouterr()
    assert said.out == ""
    for words in ("100 pairs", "training ", "step 2: BLEU", "step 4: BLEU", "done after 4 steps"):
        assert words in said.err
    assert "\x1b" not in said.err  # no terminal: plain lines
    sixfold.train("a.en", "a.de", "silent", settings=SETTINGS, progress=False)
    assert capsys.readouterr() == ("", "")
    weights = [Path(folder, "weights.safetensors").read_bytes() for folder in (outcome.folder, "silent")]
    assert weights[0] == weights[1]


def test_an_object_of_ones_own_is_told_everything_and_closed(capsys: pytest.CaptureFixture[str]) -> None:
    class Listener(PlainLines):
        said: list[str] = []  # noqa: RUF012
        is_closed = False

        def say(self, message: str) -> None:
            self.said.append(message)

        def close(self) -> None:
            self.is_closed = True

    listener = Listener()
    with pytest.raises(ConfigError):
        sixfold.train(["a.en", "a.de"], "model", "translte", progress=listener)
    assert not listener.said
    sixfold.train(["a.en", "a.de"], "model", "translate", settings=SETTINGS, progress=listener)
    assert any("done after 4 steps" in line for line in listener.said)
    assert listener.is_closed
    assert capsys.readouterr() == ("", "")
