"""A self-contained HTML page: the ES modules in `browser/` as one script, the style sheet, and the data.

The modules are concatenated in dependency order. The page's content security policy allows that script by its hash
and no other. The data is a JSON block, which browsers never execute.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import asdict
from functools import cache
from importlib.resources import files

from sixfold.explain.page import Page
from sixfold.explain.training_history import TrainingHistory

IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./(\w+)\.js";', re.MULTILINE)
EXPORT = re.compile(r"^export ((?:async )?(?:function|class|const) (\w+))", re.MULTILINE)

TEMPLATE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<noscript>This page needs JavaScript, which is turned off.</noscript>
<script type="application/json" id="data">{data}</script>
<script type="module">{script}</script>
</body>
</html>
"""


def render(page: Page) -> str:
    """Return an explanation as HTML."""
    return fill(page.title, page.script, asdict(page), "'none'")


def render_training(history: TrainingHistory, is_live: bool = False) -> str:
    """Return the page of a training run; a live page polls its server for updates."""
    content = {**asdict(history), "is_live": is_live}
    return fill("Sixfold: training", "training", content, "'self'" if is_live else "'none'")


def fill(title: str, module: str, content: dict[str, object], connect: str) -> str:
    """Return a page with this module as its script; `connect` is what it may send requests to."""
    script, style = bundled(module), asset("page.css")
    policy = (
        f"default-src 'none'; script-src '{digest(script)}'; style-src '{digest(style)}'; img-src data: blob:; "
        f"connect-src {connect}; base-uri 'none'; form-action 'none'"
    )
    return TEMPLATE.format(policy=policy, title=title, style=style, data=embedded(content), script=script)


def embedded(content: dict[str, object]) -> str:
    """Return JSON in ASCII without characters that HTML treats as markup."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def digest(content: str) -> str:
    """Return the hash by which a content security policy names an inline script or style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


@cache
def bundled(module: str) -> str:
    """Return a module and its dependencies as one script."""
    script = "\n".join(map(scoped, with_dependencies(module)))
    assert "</script" not in script
    return script


def with_dependencies(module: str, before: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return a module and all its dependencies, each after its own dependencies."""
    for _, name in IMPORT.findall(asset(f"{module}.js")):
        if name not in before:
            before = with_dependencies(name, before)
    return (*before, module)


def scoped(module: str) -> str:
    """Return a module as a function scope that returns its exports as one object."""
    content = asset(f"{module}.js")
    names = ", ".join(name for _, name in EXPORT.findall(content))
    body = EXPORT.sub(r"\1", IMPORT.sub(r"const \1 = module_\2;", content))
    return f"const module_{module} = (() => {{\n{body}\nreturn {{ {names} }};\n}})();"


@cache
def asset(name: str) -> str:
    """Return a file of `browser/`."""
    return files("sixfold.explain").joinpath("browser", name).read_text(encoding="utf-8")
