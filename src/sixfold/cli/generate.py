"""`sixfold generate`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from sixfold.cli.flags import Device, InPrecision, ModelFolder, Precision, Set
from sixfold.cli.output import is_typed, reader_may_leave, refuse_unseen, write_lines, write_piece
from sixfold.cli.set_option import read_settings, together
from sixfold.cli.token_records import token_records
from sixfold.errors import ConfigError, RequestError
from sixfold.settings import make
from sixfold.text.chat import Message

if TYPE_CHECKING:
    from sixfold.decode.generate import Generator, Stream
    from sixfold.decode.generate_options import GenerateOptions
    from sixfold.decode.generation import Continuation

LINES_AT_ONCE = 2000
CONVERSATION, DRAWS = "Conversations", "How tokens are chosen"

Prompt = Annotated[
    str | None,
    typer.Argument(help="Text to continue; if left out, prompts are read from standard input, one per line."),
]
File = Annotated[str | None, typer.Option("--file", "-f", help="A file of prompts, one per line.")]
Samples = Annotated[int | None, typer.Option("--samples", "-n", help="Number of texts for each prompt.")]
MaxTokens = Annotated[int | None, typer.Option(help="Maximum number of tokens of a text.")]
Stop = Annotated[list[str] | None, typer.Option(metavar="TEXT", help="End a text before this string; repeatable.")]
Slide = Annotated[
    bool | None,
    typer.Option("--slide", help="When the context is full, drop its oldest half instead of ending the text."),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="One JSON object for each prompt, with the probability of every token.")
]
Chat = Annotated[
    bool,
    typer.Option(
        "--chat",
        help="Prompts are messages to answer; without a prompt, in a terminal, hold a conversation.",
        rich_help_panel=CONVERSATION,
    ),
]
System = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT", help="System message at the start of a conversation.", rich_help_panel=CONVERSATION
    ),
]
Temperature = Annotated[
    float | None,
    typer.Option(
        help="Sampling temperature: higher is more varied; 0: always the most probable token.",
        rich_help_panel=DRAWS,
    ),
]
TopK = Annotated[
    int | None, typer.Option(help="Sample from the k most probable tokens; 0: from all.", rich_help_panel=DRAWS)
]
TopP = Annotated[
    float | None,
    typer.Option(
        help="Sample from the most probable tokens whose probabilities add up to p.", rich_help_panel=DRAWS
    ),
]
MinP = Annotated[
    float | None,
    typer.Option(
        help="Exclude tokens less than p times as probable as the most probable one.", rich_help_panel=DRAWS
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(help="Random seed; the same seed gives the same text.", rich_help_panel=DRAWS),
]


def generate(
    model: ModelFolder,
    prompt: Prompt = None,
    file: File = None,
    samples: Samples = None,
    max_tokens: MaxTokens = None,
    stop: Stop = None,
    slide: Slide = None,
    as_json: AsJson = False,
    settings: Set = None,
    chat: Chat = False,
    system: System = None,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    min_p: MinP = None,
    seed: Seed = None,
    precision: InPrecision = Precision.float32,
    device: Device = "auto",
) -> None:
    """Continue text with a decoder-only model, or answer messages.

    A prompt given as an argument is continued, and the text appears as it is generated. In a file or on standard
    input each line is a prompt; each text is printed on one line, with line breaks written as \\n.

    Example: sixfold generate model "Once upon a time" --max-tokens 100
    """
    from sixfold.machine import prepare_environment

    prepare_environment(precision.value)  # before torch is loaded
    from sixfold.decode.generate import load

    flags: dict[str, object | None] = {"samples": samples, "max_tokens": max_tokens, "stop": stop, "slide": slide}
    flags |= {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p, "seed": seed}
    options = read_options(flags, settings)
    refuse_unseen(options.alternatives, as_json)
    refuse_unseen(options.prompt_scores, as_json, "decode.prompt_scores")
    refuse_together(prompt, file, chat, system)
    writer = Writer(load(model, device, precision.value), options, chat, system, as_json)
    with reader_may_leave():
        if prompt is not None:
            writer.answer(prompt)
        elif is_typed(file or "-") and sys.stdout.isatty() and writer.can_show:
            writer.converse()
        else:
            writer.answer_lines(file or "-")


def read_options(flags: dict[str, object | None], settings: Sequence[str] | None) -> GenerateOptions:
    """Return the options of generation, from flags and `--set`."""
    from sixfold.decode.generate_options import GenerateOptions

    values = together("decode", flags, read_settings("generate", settings).get("decode"))
    return make(GenerateOptions, "decode", values)


def refuse_together(prompt: str | None, file: str | None, chat: bool, system: str | None) -> None:
    """Refuse options that contradict each other."""
    if prompt is not None and file is not None:
        raise ConfigError("Both a prompt and --file were given.", "Leave one of them out.")
    if system is not None and not chat:
        raise ConfigError("--system is for conversations.", "Add --chat")


@dataclass(frozen=True)
class Writer:
    """A generator, and how to print its texts."""

    generator: Generator
    options: GenerateOptions
    is_chat: bool
    system: str | None
    as_json: bool

    @property
    def can_show(self) -> bool:
        """Whether texts are shown as they are generated: one for each prompt, as plain text."""
        return not self.as_json and self.options.samples == 1

    def answer(self, prompt: str) -> None:
        """Answer one prompt; a single plain text is shown as it is generated."""
        if not self.can_show:
            self.write(1, [prompt])
            return
        if sys.stdout.isatty() and not self.is_chat:
            write_piece(prompt)
        self.show(self.generator.begin(self.encode(prompt), self.options))

    def answer_lines(self, file: str) -> None:
        """Answer every line of a file; typed lines are answered at once."""
        from sixfold.data.readers import read_lines

        lines, first = read_lines(file), 1
        while chunk := [*islice(lines, 1 if is_typed(file) else LINES_AT_ONCE)]:
            self.write(first, chunk)
            first += len(chunk)

    def write(self, first: int, prompts: Sequence[str]) -> None:
        """Print the texts for prompts in order; `first` is the line number of the first prompt."""
        from sixfold.cli.progress_bar import progress

        ids = [self.encode_line(number, prompt) for number, prompt in enumerate(prompts, start=first)]
        with progress("writing", len(ids), unit="prompts") as on_progress:
            found = self.generator.written(ids, self.options, on_progress, first_place=first - 1)
            for number, (prompt, texts) in enumerate(zip(prompts, found, strict=True), start=first):
                write_lines(
                    [self.as_row(prompt, texts)] if self.as_json else [one_line(each.text) for each in texts]
                )
                for each in texts:
                    self.say_what_is_missing(each, f"line {number}: ")

    def show(self, stream: Stream) -> None:
        """Print a text as it is generated."""
        for piece in stream:
            write_piece(piece)
        write_piece("\n")
        self.say_what_is_missing(stream.continuation)

    def converse(self) -> None:
        """Answer what is typed as the turns of a conversation, or continue each line; Ctrl-C stops a text."""
        messages = self.beginning()
        self.encode("")  # refuses a model without a chat template at once
        wish = "Write a message" if self.is_chat else "Write the beginning of a text"
        typer.echo(f"{wish}. Ctrl-C stops the answer, Ctrl-D ends.", err=True)
        for line in typed_lines():
            try:
                stream = self.begin_turn(messages, line)
            except RequestError as error:
                typer.echo(f"error: {error.message}\nhint: {error.hint}", err=True)
                continue
            try:
                self.show(stream)
            except KeyboardInterrupt:
                write_piece("\n")
            messages += [Message("user", line), Message("assistant", stream.continuation.text)]

    def begin_turn(self, messages: Sequence[Message], line: str) -> Stream:
        """Return the answer to a line after some messages, or how the line goes on, before anything is written."""
        if self.is_chat:
            return self.generator.stream_chat([*messages, Message("user", line)], self.options)
        return self.generator.begin(self.encode(line), self.options)

    def beginning(self) -> list[Message]:
        """Return the messages before the first one of a conversation."""
        return [] if self.system is None else [Message("system", self.system)]

    def encode(self, prompt: str) -> list[int]:
        """Return the tokens of a prompt, or of a conversation that begins with this message."""
        if self.is_chat:
            return self.generator.encode_chat([*self.beginning(), Message("user", prompt)])
        return self.generator.encode(prompt)

    def encode_line(self, number: int, prompt: str) -> list[int]:
        """Return the tokens of a prompt; refuse one that does not fit, naming its line."""
        ids = self.encode(prompt)
        try:
            self.generator.refuse_too_long(ids, self.options)
        except RequestError as error:
            raise RequestError(f"Line {number:,}: {error.message}", error.hint) from error
        return ids

    def as_row(self, prompt: str, texts: Sequence[Continuation]) -> str:
        """Return the JSON of a prompt."""
        return json.dumps({"prompt": prompt, "texts": [*map(self.as_record, texts)]}, ensure_ascii=False)

    def as_record(self, written: Continuation) -> dict[str, object]:
        """Return the JSON record of one text."""
        tokenizer = self.generator.tokenizer
        scored = {"prompt_tokens": token_records(tokenizer, written.prompt_scores)}
        return (scored if self.options.prompt_scores else {}) | {
            "text": written.text,
            "finished": written.finished,
            "log_probability": sum(written.log_probabilities),
            "num_tokens": len(written.tokens),
            "num_prompt_tokens": len(written.prompt),
            "num_forgotten": written.num_forgotten,
            "tokens": token_records(tokenizer, written.token_scores),
        }

    def say_what_is_missing(self, written: Continuation, where: str = "") -> None:
        """Warn if a text ended because the context or the limit was reached, or if a part was dropped."""
        most = self.generator.engine.max_positions
        if written.num_forgotten:
            typer.echo(f"note: {where}the oldest {written.num_forgotten:,} tokens were dropped", err=True)
        elif len(written.prompt) + len(written.tokens) > most:
            typer.echo(
                f"warning: {where}the context of {most:,} tokens is full; add --slide to continue", err=True
            )
        elif written.finished == "length" and self.is_chat:
            typer.echo(f"warning: {where}the answer reached its limit; --max-tokens changes it", err=True)


def one_line(text: str) -> str:
    """Return a text as one line, with line breaks and backslashes escaped."""
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def typed_lines() -> Iterator[str]:
    """Yield the lines that a person types until Ctrl-D or a second Ctrl-C in a row."""
    import readline  # noqa: F401  # input() can be edited then

    was_interrupted = False
    while True:
        try:
            line = input("> ")
        except EOFError:
            write_piece("\n")
            return
        except KeyboardInterrupt:
            if was_interrupted:
                raise
            was_interrupted = True
            typer.echo("\nCtrl-D ends.", err=True)
            continue
        was_interrupted = False
        if line.strip():
            yield line
