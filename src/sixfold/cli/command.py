"""A command whose help lists the settings of `--set`, and which explains former flags."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from importlib import import_module
from itertools import takewhile
from typing import TYPE_CHECKING

import typer
from typer.core import TyperCommand

from sixfold.cli.set_option import Known, as_flag, known_settings
from sixfold.errors import ConfigError

if TYPE_CHECKING:
    from rich.panel import Panel
    from typer._click import Context

# newer versions of typer include their own click, whose errors typer exports
NoSuchOption: type[Exception] = import_module(typer.BadParameter.__module__).NoSuchOption

FLAGS_OF_FILES = ("--valid", "--test")  # these take one file or two
RENAMED = {  # former flags that are now settings of another name
    "serve": {
        "--queue": "serve.most_waiting",
        "--deadline": "serve.deadline_seconds",
        "--max-characters": "serve.most_characters",
    }
}
REMOVED = {
    "translate": {
        "--diverse": "For more diverse translations, sample them: --n-best 4 --sample 1",
        "--read-back": "Noisy-channel reranking is gone: it doubled the time for 0.2 to 0.6 BLEU. Leave it out.",
    }
}


class Command(TyperCommand):
    """A command of `sixfold`."""

    def get_help(self, ctx: Context) -> str:
        """Return the part of the help that typer does not print."""
        for option in self.get_params(ctx):
            if getattr(option, "is_flag", False):
                option.metavar = ""  # not <bool>: it takes no value
        shown = super().get_help(ctx)
        known = known_settings(self.name or "")
        flags = {flag for option in self.params for flag in option.opts}
        return shown + render(settings_panel(known, flags)) if known else shown

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Read the arguments; a flag that became a setting is refused with a hint."""
        try:
            return super().parse_args(ctx, with_pairs(args))
        except NoSuchOption as error:
            refuse_former(self.name or "", str(getattr(error, "option_name", "")))
            raise


def with_pairs(args: list[str]) -> list[str]:
    """Turn `--valid SOURCE TARGET` into `--valid SOURCE --valid TARGET`, and likewise `--test`.

    If no input comes before it, `--valid FILE INPUT` is one validation file and one input.
    """
    for flag in FLAGS_OF_FILES:
        args = with_pair(args, flag)
    return args


def with_pair(args: list[str], flag: str) -> list[str]:
    """Repeat the flag before each of its files."""
    if flag not in args:
        return args
    place = args.index(flag)
    files = [*takewhile(lambda each: each == "-" or not each.startswith("-"), args[place + 1 :])]
    is_alone = args[0].startswith("-") and len(files) == 2
    if len(files) < 2 or is_alone:
        return args
    return [*args[: place + 2], flag, *args[place + 2 :]]


def help_of(command: Callable[..., None]) -> str:
    """Return the docstring of a command with each paragraph on one line, so that any terminal can wrap it."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split("\n")) for paragraph in paragraphs)


def refuse_former(command: str, flag: str) -> None:
    """Refuse a former flag, or one with the name of a setting, with a hint on what to write."""
    names = {as_flag(key): f"{part}.{key}" for part, keys in known_settings(command).items() for key in keys}
    names |= RENAMED.get(command, {})
    hint = f"Write --set {names[flag]}=VALUE" if flag in names else REMOVED.get(command, {}).get(flag)
    if hint:
        raise ConfigError(f"`sixfold {command}` has no flag {flag}.", hint)


def settings_panel(known: Known, flags: Collection[str]) -> Panel:
    """Return the settings of `--set` and their meanings, in a frame like typer's."""
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    for part, keys in known.items():
        for key, meaning in keys.items():
            same = f" (as {as_flag(key)})" if as_flag(key) in flags else ""
            table.add_row(Text(f"{part}.{key}", style="bold cyan"), Text(meaning).append(same, style="dim"))
    return Panel(table, title="What --set takes", title_align="left", border_style="dim")


def render(panel: Panel) -> str:
    """Return a panel as text, in colour where standard output shows any."""
    from rich.console import Console

    console = Console()
    with console.capture() as captured:
        console.print(panel)
    return captured.get()
