"""Checkpoints on the Hugging Face Hub; needs the extra `[hub]`.

One file is ever read from there, model.safetensors, which holds tensors and text and no code. It stays in the cache
folder of `huggingface_hub`, from which it is taken where there is no network.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dgpnet.errors import Error

if TYPE_CHECKING:
    from huggingface_hub import HfApi

#: What names of the Hub begin with.
SCHEME = "hf://"
#: What a checkpoint is called there.
FILE = "model.safetensors"
#: What describes it to people.
CARD = "README.md"
#: What the Hub's history says of it.
COMMIT = "A checkpoint of dgpnet"
#: What is larger is no checkpoint of dgpnet: its largest encoders have a quarter of that.
MAX_BYTES = 8 * 1024**3

_PART = r"\w[\w.-]{0,95}"
_NAME = re.compile(rf"(?P<repository>{_PART}/{_PART})(?:@(?P<revision>{_PART}(?:/{_PART})*))?", re.ASCII)


@dataclass(frozen=True)
class Name:
    """A repository of the Hub, "owner/name", and a branch, tag or commit of it (None: its main branch)."""

    repository: str
    revision: str | None = None

    @staticmethod
    def parse(text: str) -> "Name":
        """From "owner/name", "owner/name@revision", with or without hf:// before it."""
        match = _NAME.fullmatch(text.removeprefix(SCHEME)) if isinstance(text, str) else None
        if match is None:
            raise Error(f"{text!r:.200} is no name on the Hugging Face Hub; write hf://owner/name, or …@revision.")
        return Name(match["repository"], match["revision"])

    def __str__(self) -> str:
        return f"{SCHEME}{self.repository}" + (f"@{self.revision}" if self.revision else "")


def download(text: str) -> Path:
    """The file of the checkpoint with that name, in the cache; asked for anew where the Hub has another."""
    name = Name.parse(text)
    with _asking(name) as hub:
        about = hub.hf_hub_download(name.repository, FILE, revision=name.revision, dry_run=True)
        if about.file_size is None or about.file_size > MAX_BYTES:
            size = "of unknown size" if about.file_size is None else f"{about.file_size:,} bytes"
            raise Error(f"The {FILE} of {name} is {size}, and at most {MAX_BYTES:,} are read; use another.")
        return Path(hub.hf_hub_download(name.repository, FILE, revision=name.revision))


def upload(text: str, folder: Path, *, private: bool | None = None) -> str:
    """Put the checkpoint in the folder, and its card where the repository has none, on the Hub; returns its address.

    private: of a repository that is not there yet and is made; None for what its owner has chosen as a rule.
    """
    name = Name.parse(text)
    with _asking(name) as hub:
        from huggingface_hub import CommitOperationAdd

        hub.create_repo(name.repository, private=private, exist_ok=True)
        written = hub.file_exists(name.repository, CARD, revision=name.revision)
        files = [CommitOperationAdd(file, folder / file) for file in ((FILE,) if written else (FILE, CARD))]
        done = hub.create_commit(name.repository, files, commit_message=COMMIT, revision=name.revision)
        return str(done.commit_url)


@contextmanager
def _asking(name: Name) -> Iterator["HfApi"]:
    """The Hub; whatever goes wrong there is an Error that says what to do."""
    try:
        from huggingface_hub import HfApi
    except ModuleNotFoundError as error:
        raise Error(f"{name} needs the package huggingface_hub; install it with pip install 'dgpnet[hub]'.") from error
    try:
        yield HfApi(endpoint=os.environ.get("HF_ENDPOINT"), library_name="dgpnet")
    except Error:
        raise
    except Exception as error:  # the Hub's, its HTTP library's, the operating system's: they share no class
        raise Error(_sentence(error, name)) from error


def _sentence(error: Exception, name: Name) -> str:
    """What the error means to somebody who asked for that name."""
    kinds = (kind.__name__ for kind in type(error).__mro__)
    meant = next((_SENTENCES[kind] for kind in kinds if kind in _SENTENCES), _OTHERWISE)
    reason = " ".join(str(error).split())[:200]
    return meant.format(name=name, reason=reason)


#: By the class of the error, of which `huggingface_hub` is loaded only when it is used.
_SENTENCES = {
    "GatedRepoError": "{name} wants its terms accepted; do so on its page, then log in with `hf auth login`.",
    "RepositoryNotFoundError": "There is no {name}, or you may not see it; check the name, or `hf auth login`.",
    "RevisionNotFoundError": "{name} has no such revision; give a branch, a tag or a commit that it has.",
    "RemoteEntryNotFoundError": f"{{name}} has no {FILE}; give the name of a model that dgpnet put there.",
    "LocalEntryNotFoundError": "{name} is not in the cache and the Hub does not answer; try again with a network.",
    "OfflineModeIsEnabled": "{name} needs a network, and HF_HUB_OFFLINE is set; unset it.",
    "TransportError": "{name} needs the Hugging Face Hub, which does not answer ({reason}); check the network.",
}
_OTHERWISE = "The Hugging Face Hub refused {name} ({reason}); check who is logged in (`hf auth whoami`) or try again."
