"""Chat templates: what Jinja writes, our plain prefixes and suffixes write too."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.convert.published_models import CHATML

from sixfold.convert.chat_templates import KNOWN, as_jinja, recognised
from sixfold.errors import ModelFolderError
from sixfold.text.chat import ChatTemplate, Message

jinja2 = pytest.importorskip("jinja2")
from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: E402

TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
TALKS = [
    [("user", " hello\n"), ("assistant", "hi"), ("user", "{{ 7 * 7 }}")],
    [("system", "be 'kind'"), ("user", "hello"), ("assistant", " yes ")],
]
# As models on the hub have them, in their own ways of writing.
WRITTEN = {
    "ChatML": CHATML,
    "ChatML, its own quotes and line breaks": CHATML.replace("'", '"').replace("\n", "\\n").replace("{%", "{%- "),
    "SmolLM2": CHATML.replace(
        "messages %}",
        "messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
        "{{ '<|im_start|>system\nYou are a helpful AI assistant.<|im_end|>\n' }}{% endif %}",
        1,
    ),
    "Zephyr": (
        "{% for message in messages %}\n"
        "{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] + eos_token }}\n"
        "{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + eos_token }}\n"
        "{% elif message['role'] == 'assistant' %}\n{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n"
        "{% endif %}\n{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n"
        "{% endfor %}"
    ),
    "Llama 3": (
        "{% set loop_messages = messages %}{% for message in loop_messages %}"
        "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'"
        "+ message['content'] | trim + '<|eot_id|>' %}"
        "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
    ),
}


def by_jinja(template: str, talk: list[tuple[str, str]], to_be_answered: bool) -> str:
    """Return a conversation as other programs write it."""
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    messages = [{"role": role, "content": content} for role, content in talk]
    written: str = environment.from_string(template).render(
        messages=messages, add_generation_prompt=to_be_answered, **TOKENS
    )
    return written


def by_us(template: ChatTemplate, talk: list[tuple[str, str]], to_be_answered: bool) -> str:
    """Return a conversation as we write it."""
    messages = [Message(role, content) for role, content in talk]  # type: ignore[arg-type]
    return "".join(part.text for part in template.parts(messages, to_be_answered))


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("talk", TALKS)
@pytest.mark.parametrize("to_be_answered", [True, False])
def test_a_recognised_template_writes_what_jinja_writes(
    name: str, talk: list[tuple[str, str]], to_be_answered: bool
) -> None:
    template = recognised(WRITTEN[name], TOKENS)
    assert by_us(template, talk, to_be_answered) == by_jinja(WRITTEN[name], talk, to_be_answered)


MARK = st.text("ab <>|{}%#'\"\\\n+-_[]é", max_size=8)


@settings(max_examples=50)
@given(MARK, st.tuples(*[st.tuples(MARK, MARK)] * 3), MARK, st.booleans())
def test_what_is_exported_is_recognised_again_and_writes_the_same(
    begin: str, marks: tuple[tuple[str, str], ...], system: str, strips: bool
) -> None:
    system = system.strip() if strips else system
    template = ChatTemplate(*marks, begin=begin, default_system=system, strips=strips)
    jinja = as_jinja(template)
    for talk in TALKS:
        assert by_jinja(jinja, talk, True) == by_us(template, talk, True)
    assert recognised(jinja, TOKENS) == template


@pytest.mark.parametrize("name", KNOWN)
def test_the_templates_that_can_be_named_are_recognised_when_written(name: str) -> None:
    assert recognised(as_jinja(KNOWN[name]), TOKENS) == KNOWN[name]


@pytest.mark.parametrize(
    "change",
    [
        lambda jinja: jinja.replace("assistant\n' }}{% endif %}", "user\n' }}{% endif %}"),
        lambda jinja: jinja.replace("message['content']", "message['content'] | upper"),
        lambda jinja: jinja.replace("messages %}", "messages[1:] %}"),
        lambda jinja: jinja + "{{ 1 }}",
        lambda jinja: "{% set x = 1 %}" + jinja,
        lambda jinja: jinja.replace("{% endfor %}", ""),
    ],
)
def test_a_template_that_does_something_else_is_not_taken_for_a_known_one(change) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ModelFolderError, match="never executes"):
        recognised(change(CHATML), TOKENS)
