"""What the data says: which inputs are for which task, and what is refused because two tasks could take it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sixfold.errors import ConfigError
from sixfold.tasks.registry import task_for

CONTENTS = {
    "a.txt": "one\ntwo\n",
    "b.txt": "eins\nzwei\n",
    "c.txt": "un\ndeux\n",
    "pairs.tsv": "one\teins\n",
    "memory.tmx": '<?xml version="1.0"?><tmx version="1.4"></tmx>',
    "pairs.jsonl": '{"source": "one", "target": "eins"}\n',
    "named.jsonl": '{"en": "one", "de": "eins"}\n',
    "texts.jsonl": '{"text": "one"}\n',
    "more.jsonl": '{"text": "two", "id": 2}\n',
    "either.jsonl": '{"text": "one", "german": "eins"}\n',
    "talk.jsonl": '{"prompt": "one", "response": "two"}\n',
    "messages.jsonl": '{"messages": [{"role": "user", "content": "one"}]}\n',
    "reviews.csv": "text,label\nA fine film,good\nA dull film,bad\n",
    "premises.tsv": "premise\thypothesis\tlabel\nIt rains\tIt is wet\tyes\nIt rains\tIt is dry\tno\n",
    "words.conll": "Ann B-PER\nsleeps O\n\nBob B-PER\nruns O\n",
    "spans.jsonl": '{"text": "Ann sleeps", "spans": [{"start": 0, "end": 3, "label": "PER"}]}\n',
    "squad.json": '{"version": "1.1", "data": [{"title": "t", "paragraphs": []}]}',
    "questions.jsonl": '{"question": "Who?", "context": "Ann", "answers": {"text": ["Ann"], "answer_start": [0]}}',
    "classes/good/a.txt": "A fine film\n",
    "classes/bad/b.txt": "A dull film\n",
    "books/a.txt": "one\n",
    "books/b.txt": "two\n",
    "memories/a.tsv": "one\teins\n",
    "both/a.tsv": "one\teins\n",
    "both/README.txt": "What this is.\n",
    "en/a": "one\n",
    "de/a": "eins\n",
}
SAID = {  # the table of docs/commands.md
    "a.txt b.txt": "translate",
    "en de": "translate",
    "pairs.tsv": "translate",
    "memory.tmx": "translate",
    "pairs.jsonl": "translate",
    "named.jsonl": "translate",
    "memories": "translate",
    "a.txt": "generate",
    "a.txt b.txt c.txt": "generate",
    "books": "generate",
    "texts.jsonl": "generate",
    "texts.jsonl more.jsonl": "generate",
    "talk.jsonl": "generate",
    "talk.jsonl messages.jsonl": "generate",
    "reviews.csv": "classify",
    "premises.tsv": "classify",
    "words.conll": "tag",
    "spans.jsonl": "tag",
    "squad.json": "answer",
    "questions.jsonl": "answer",
    "classes": "generate classify",
    "either.jsonl": "translate generate",
    "both": "translate generate",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file of every kind, in which to work."""
    for name, content in CONTENTS.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("inputs", SAID)
def test_the_data_says_what_it_is_for(inputs: str) -> None:
    tasks = SAID[inputs].split()
    if len(tasks) == 1:
        assert task_for(inputs.split()).name == tasks[0]
        return
    with pytest.raises(ConfigError, match="Several tasks can learn from this data") as raised:
        task_for(inputs.split())
    assert raised.value.hint.splitlines() == [f"sixfold train {inputs} --task {task}" for task in tasks]


@pytest.mark.usefixtures("folder")
def test_what_the_user_says_counts_more() -> None:
    assert task_for(["a.txt", "b.txt"], "generate").name == "generate"
    with pytest.raises(ConfigError, match="There is no task 'generat'") as raised:
        task_for(["a.txt"], "generat")
    assert "generate" in raised.value.hint
