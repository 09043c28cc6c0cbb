"""Chat templates of published models: recognised as plain prefixes and suffixes, never executed.

A published template is a program in Jinja. It is normalised (quotes, spaces, adjacent texts) and compared with the
few forms known here; any other one is refused. For an export, a template is written in one of these forms.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sixfold.errors import ModelFolderError
from sixfold.text.chat import ChatTemplate, Role

LONGEST = 4_000  # characters; all known templates are shorter
TAG = re.compile(r"\{\{-?(.*?)-?\}\}|\{%-?(.*?)-?%\}", re.DOTALL)
LITERAL = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"", re.DOTALL)
ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|(.))", re.DOTALL)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
ROLES: tuple[Role, ...] = ("system", "user", "assistant")


def same_marks(before: str, after_role: str, after: str) -> ChatTemplate:
    """Return a template in which the role is named in the text before its message."""
    system, user, assistant = ((f"{before}{role}{after_role}", after) for role in ROLES)
    return ChatTemplate(system, user, assistant)


KNOWN: dict[str, ChatTemplate] = {
    "chatml": same_marks("<|im_start|>", "\n", "<|im_end|>\n"),
    "llama-3": replace(
        same_marks("<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>"),
        begin="<|begin_of_text|>",
        strips=True,
    ),
    "zephyr": same_marks("<|", "|>\n", "</s>\n"),
}
SUPPORTED = (
    "Supported: templates that put a fixed text before and after each message, as ChatML (SmolLM, Qwen), Llama 3 "
    f"and Zephyr do. Name one with --chat {' or '.join(KNOWN)}, or import without chat: --chat none."
)


def recognised(jinja: str, tokens: Mapping[str, str]) -> ChatTemplate:
    """Return the plain form of a template; `tokens` has the texts of `bos_token` and `eos_token`."""
    if len(jinja) <= LONGEST:
        form = canonical(jinja, tokens)
        for shape in (of_one_mark, of_marks_by_role, of_llama_3):
            if (found := shape(form)) is not None:
                return found
    raise ModelFolderError(
        "The model's chat template is a program that Sixfold does not recognise, and never executes.", SUPPORTED
    )


# Normalisation


@dataclass(frozen=True)
class Code:
    """A part of a template that is code."""

    source: str


Piece = str | Code  # a text is literal output


def canonical(jinja: str, tokens: Mapping[str, str]) -> str:
    """Return a template in canonical form: `%statement%` and `{'text'+expression}`, without unnecessary spaces."""
    written: list[str] = []
    output: list[Piece] = []

    def flush() -> None:
        if output:
            written.append("{" + "+".join(map(spelled, merged(output))) + "}")
            output.clear()

    for text, expression, statement in stretches(jinja):
        if text:
            output.append(text)
        if expression:
            output.extend(terms(expression, tokens))
        if statement:
            flush()
            written.append(f"%{'+'.join(map(spelled, merged(list(terms(statement, tokens)))))}%")
    flush()
    return "".join(written)


def stretches(jinja: str) -> Iterator[tuple[str, str, str]]:
    """Yield each text with the expression or statement after it, with Jinja's trimming for chat templates:
    a line break after a statement, and spaces before one at the beginning of a line, belong to the statement.
    """
    end, drops_break, drops_space = 0, False, False
    for tag in TAG.finditer(jinja):
        text, is_statement = jinja[end : tag.start()], tag.group(2) is not None
        text = text.lstrip() if drops_space else text.removeprefix("\n") if drops_break else text
        if tag.group().startswith(("{{-", "{%-")):
            text = text.rstrip()
        elif is_statement and (not text or "\n" in text):
            text = text.rstrip(" \t") if text.rstrip(" \t").endswith("\n") else text
        yield text, (tag.group(1) or "").strip(), (tag.group(2) or "").strip()
        end, drops_break, drops_space = tag.end(), is_statement, tag.group().endswith(("-}}", "-%}"))
    text = jinja[end:]
    yield (text.lstrip() if drops_space else text.removeprefix("\n") if drops_break else text), "", ""


def terms(expression: str, tokens: Mapping[str, str]) -> Iterator[Piece]:
    """Yield the operands of `+`: texts unchanged, and code in canonical form."""
    end = 0
    for literal in LITERAL.finditer(masked_keys(expression)):
        yield from code(expression[end : literal.start()], tokens)
        body = expression[literal.start() + 1 : literal.end() - 1]
        yield ESCAPE.sub(unescaped, body)
        end = literal.end()
    yield from code(expression[end:], tokens)


def unescaped(found: re.Match[str]) -> str:
    """Return the character of an escape sequence."""
    return chr(int(found[1], 16)) if found[1] else ESCAPES.get(found[2], found[2])


def masked_keys(expression: str) -> str:
    """Return an expression of the same length in which keys such as ['role'] do not look like texts."""
    return re.sub(r"\[(['\"])(\w+)\1\]", lambda key: f"[_{key[2]}_]", expression)


def code(source: str, tokens: Mapping[str, str]) -> Iterator[Piece]:
    """Yield the parts of an expression between its texts."""
    source = re.sub(r"\[['\"](\w+)['\"]\]", r".\1", source)
    source = re.sub(r"\s+", " ", re.sub(r"\s*([|=!<>]+)\s*", r"\1", source))
    for part in re.sub(r"^ ?(set \w+=)", r"\1+", source).split("+"):
        name = part.strip()
        if name in tokens:
            yield tokens[name]
        elif name:
            yield Code(re.sub(r"\(?message\.(role|content)(\|trim)?\)?", r"\1\2", name))


def merged(pieces: list[Piece]) -> Iterator[Piece]:
    """Merge adjacent texts."""
    text = ""
    for piece in pieces:
        if isinstance(piece, str):
            text += piece
            continue
        if text:
            yield text
            text = ""
        yield piece
    if text:
        yield text


def spelled(piece: Piece) -> str:
    """Return a piece in canonical form."""
    if isinstance(piece, Code):
        return piece.source
    escaped = piece.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def plain(escaped: str | None) -> str:
    """Return the content of a text in canonical form."""
    return re.sub(r"\\(.)", r"\1", escaped or "", flags=re.DOTALL)


# The known forms

TEXT = r"'((?:[^'\\]|\\.)*)'"
FOR, END_FOR = r"%for message in messages%", r"%endfor%"
FIRST = rf"(?:%if (?:loop\.first and )?messages\[0\]\.role!=\+'system'%\{{{TEXT}\}}%endif%)?"
PROMPT = rf"%if add_generation_prompt%\{{(?:{TEXT})?\}}(?:%endif%|%else%\{{'[^']*'\}}%endif%)"
PROMPT_INSIDE = rf"%if loop\.last and add_generation_prompt%\{{{TEXT}\}}%endif%"
BEGIN = rf"(?:\{{{TEXT}\}})?"
CONTENT = r"(content(?:\|trim)?)"
MESSAGE = rf"\{{(?:{TEXT}\+)?{CONTENT}(?:\+{TEXT})?\}}"
ANY_MESSAGE = re.sub(r"\((?!\?)", "(?:", MESSAGE)  # without groups
BRANCH = re.compile(rf"%(?:el)?if role==\+'(system|user|assistant)'%{MESSAGE}")

ONE_MARK = re.compile(
    rf"{BEGIN}{FIRST}{FOR}{FIRST}\{{(?:{TEXT}\+)?role(?:\+{TEXT})?\+{CONTENT}(?:\+{TEXT})?\}}{END_FOR}{PROMPT}"
)
BY_ROLE = re.compile(
    rf"{BEGIN}{FIRST}{FOR}((?:%(?:el)?if role==\+'\w+'%{ANY_MESSAGE})+)%endif%"
    rf"(?:{END_FOR}{PROMPT}|{PROMPT_INSIDE}{END_FOR})"
)
LLAMA_3 = re.compile(
    r"(?:%set loop_messages=\+messages%)?%for message in (?:loop_)?messages%"
    rf"%set content=\+{TEXT}\+role\+{TEXT}\+{CONTENT}\+{TEXT}%"
    rf"%if loop\.index0==0%%set content=\+{TEXT}\+content%%endif%\{{content\}}{END_FOR}(?:{PROMPT}|\{{{TEXT}\}})"
)


def of_one_mark(form: str) -> ChatTemplate | None:
    """Read a template with the name of the role before each message (ChatML)."""
    found = ONE_MARK.fullmatch(form)
    if found is None:
        return None
    begin, early, late, before, after_role, content, after, prompt = found.groups()
    template = same_marks(plain(before), plain(after_role), plain(after))
    return completed(template, begin, early or late, content, prompt)


def of_marks_by_role(form: str) -> ChatTemplate | None:
    """Read a template with a branch for each role (Zephyr, and those exported by Sixfold)."""
    found = BY_ROLE.fullmatch(form)
    if found is None:
        return None
    begin, early, branches, outside, inside = found.groups()
    around = {branch[1]: (plain(branch[2]), plain(branch[4]), branch[3]) for branch in BRANCH.finditer(branches)}
    contents = {content for _, _, content in around.values()}
    if BRANCH.sub("", branches) or around.keys() != set(ROLES) or len(contents) > 1:
        return None
    system, user, assistant = (around[role][:2] for role in ROLES)
    template = ChatTemplate(system, user, assistant)
    return completed(template, begin, early, contents.pop(), outside or inside)


def of_llama_3(form: str) -> ChatTemplate | None:
    """Read Llama 3's template, which assembles a message before it outputs it."""
    found = LLAMA_3.fullmatch(form)
    if found is None:
        return None
    before, after_role, content, after, begin, prompt, always = found.groups()
    template = same_marks(plain(before), plain(after_role), plain(after))
    return completed(template, begin, None, content, prompt or always)


def completed(
    template: ChatTemplate, begin: str | None, first: str | None, content: str, prompt: str | None
) -> ChatTemplate | None:
    """Add the text before the first message, if the text before an answer is the assistant's."""
    if plain(prompt) != template.assistant[0]:
        return None
    default = plain(first)
    before, after = template.system
    if first is not None and not (default.startswith(before) and default.endswith(after)):
        return None
    system = default[len(before) : len(default) - len(after)] if first is not None else ""
    return ChatTemplate(
        template.system, template.user, template.assistant, plain(begin), system, content.endswith("|trim")
    )


def as_jinja(template: ChatTemplate) -> str:
    """Write a template as Jinja, for other software."""
    content = "message['content'] | trim" if template.strips else "message['content']"
    begin = f"{{{{ {quoted(template.begin)} }}}}" if template.begin else ""
    default = template.default_system.strip() if template.strips else template.default_system
    system = "".join((template.system[0], default, template.system[1]))
    first = f"{{% if messages[0]['role'] != 'system' %}}{{{{ {quoted(system)} }}}}{{% endif %}}"
    branches = "".join(
        f"{{% {'if' if role == ROLES[0] else 'elif'} message['role'] == '{role}' %}}"
        f"{{{{ {quoted(before)} + ({content}) + {quoted(after)} }}}}"
        for role, (before, after) in ((role, template.around(role)) for role in ROLES)
    )
    prompt = f"{{% if add_generation_prompt %}}{{{{ {quoted(template.assistant[0])} }}}}{{% endif %}}"
    loop = f"{{% for message in messages %}}{branches}{{% endif %}}{{% endfor %}}"
    return f"{begin}{first if template.default_system else ''}{loop}{prompt}"


def quoted(text: str) -> str:
    """Write a text for Jinja."""
    for sign, written in (("\\", "\\\\"), ("'", "\\'"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        text = text.replace(sign, written)
    for sign in "{}%":  # they would end a tag for parsers simpler than Jinja's
        text = text.replace(sign, f"\\x{ord(sign):02x}")
    return f"'{text}'"
