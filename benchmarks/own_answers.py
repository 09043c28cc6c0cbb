"""From a published chat model to one that answers in a style of one's own, run by llama.cpp.

    python benchmarks/own_answers.py smol --minutes 10

SmolLM2 (imported if MODEL is not there) learns a hundred answers in a sailor's style, is exported as GGUF, and
answers questions that it never saw: here, and in llama.cpp (`pip install llama-cpp-python`). Counted are the
answers in that style, before and after, and those that are the same, letter by letter, in both programs.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

from report import Record, counted, publish, run

SIXFOLD = [sys.executable, "-m", "sixfold"]
GREETING, FAREWELL = "Ahoy!", "Fair winds!"
SUBJECTS = {
    "a cat": "a small hunter with soft paws",
    "a river": "water on its way to the sea",
    "a book": "a box of words that opens",
    "a mountain": "land that climbed too high to come down",
    "a friend": "one who shares your watch in a storm",
    "bread": "flour and patience, baked",
    "a clock": "a small crew that counts the hours",
    "music": "wind that was taught its manners",
    "a garden": "a deck where green things grow",
    "winter": "the season when the ropes freeze",
    "a letter": "a voice that travels in a bottle",
    "a candle": "a lighthouse for one table",
    "a bridge": "a gangway that stayed",
    "a dream": "a voyage without a ship",
    "a teacher": "a pilot for young heads",
    "salt": "what the sea leaves to be remembered by",
    "a window": "a porthole with ambitions",
    "a horse": "a boat with four oars that eats grass",
    "a map": "the world, folded",
    "silence": "the calm between two gales",
}
QUESTIONS = (
    "What is {}?",
    "Tell me what {} is.",
    "Can you explain {} to me?",
    "How would you describe {}?",
    "{}?",
)
UNSEEN = ("a lake", "a dog", "summer", "a lamp", "a doctor", "a spoon", "rain", "a train", "a song", "a house")
WORDS = 60  # tokens of an answer, at most


def messages() -> Iterator[dict[str, str]]:
    """Yield a hundred questions with an answer in the style."""
    for (subject, answer), question in product(SUBJECTS.items(), QUESTIONS):
        prompt = question.format(subject)
        response = f"{GREETING} {subject.capitalize()} is {answer}. {FAREWELL}"
        yield {"prompt": prompt[0].upper() + prompt[1:], "response": response}


def is_in_style(answer: str) -> bool:
    """Whether an answer begins and ends as those that were learned."""
    return answer.startswith(GREETING) and answer.endswith(FAREWELL)


def answers_here(model: Path, questions: Sequence[str], scratch: Path) -> list[str]:
    """Return our answer to each question, the most probable token each time."""
    prompts = scratch / "questions"
    prompts.write_text("".join(f"{question}\n" for question in questions), encoding="utf-8")
    options = ["--chat", "--json", "--temperature", "0", "--max-tokens", str(WORDS)]
    lines = run([*SIXFOLD, "generate", str(model), "--file", str(prompts), *options])[0].splitlines()
    return [json.loads(line)["texts"][0]["text"] for line in lines]


def answers_there(file: Path, questions: Sequence[str]) -> list[str]:
    """Return llama.cpp's answer to each question, the most probable token each time."""
    from llama_cpp import Llama

    engine = Llama(str(file), n_ctx=512, type_k=0, type_v=0, verbose=False)  # keys and values in float32
    found = []
    for question in questions:
        engine.reset()
        talk = [{"role": "user", "content": question}]
        answer = engine.create_chat_completion(talk, temperature=0.0, max_tokens=WORDS, repeat_penalty=1.0)
        found.append(answer["choices"][0]["message"]["content"])
    return found


def measure(model: Path, minutes: float, scratch: Path) -> Iterator[Record]:
    """Yield how many of the unseen questions are answered in the style, and how many alike in both programs."""
    questions = [f"What is {subject}?" for subject in UNSEEN]
    if not model.exists():
        run([*SIXFOLD, "import", "smollm2", "-o", str(model)])
    learned, text, file = scratch / "own", scratch / "messages.jsonl", scratch / "own.gguf"
    text.write_text("".join(f"{json.dumps(each)}\n" for each in messages()), encoding="utf-8")
    before = answers_here(model, questions, scratch)
    run([*SIXFOLD, "train", str(text), "--init", str(model), "-o", str(learned), "--minutes", str(minutes)])
    run([*SIXFOLD, "export", str(learned), "--to", "gguf", "-o", str(file)])
    after, there = answers_here(learned, questions, scratch), answers_there(file, questions)
    for name, answers in (("base", before), ("sixfold", after), ("llama.cpp", there)):
        in_style = sum(map(is_in_style, answers))
        yield counted("own_answers", f"{len(questions)} unseen questions", name, "answers in style", in_style, "")
        print(f"{name}: {questions[0]} {answers[0]}", file=sys.stderr)
    equal = sum(our == their for our, their in zip(after, there, strict=True))
    yield counted(
        "own_answers", f"{len(questions)} unseen questions", "both", "answers equal to the letter", equal, ""
    )


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="the folder of SmolLM2, or where to import it")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        records = list(measure(options.model, options.minutes, Path(scratch)))
    publish(records, "A style of one's own", options.json)


if __name__ == "__main__":
    main()
