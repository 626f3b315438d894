"""The credential plugins in the configuration of ``--image-credential-provider-config``: a file, or a directory of
them.

They are read once, at start, and the agent does not start with an invalid configuration: pods whose image can only be
pulled with a plugin would wait for ever.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from trikubelet.core.credential_plugins import read_plugins
from trikubelet.core.document import parse_documents
from trikubelet.kit.named_file import read_named
from trikubelet.model.faults import Fault

if TYPE_CHECKING:
    from pathlib import Path

    from trikubelet.core.document import Document
    from trikubelet.model.credential_plugin import CredentialPlugin

CONFIG: Final = "--image-credential-provider-config"
DIRECTORY: Final = "--image-credential-provider-bin-dir"
_SUFFIXES: Final = (".json", ".yaml", ".yml")


def find_plugins(config: Path | None, directory: Path | None) -> tuple[tuple[CredentialPlugin, ...], list[Fault]]:
    """Return the plugins, and all faults in their configuration. Raises nothing."""
    if config is None or directory is None:
        given, needed = (CONFIG, DIRECTORY) if directory is None else (DIRECTORY, CONFIG)
        both = config is not None or directory is not None
        return (), [Fault(given, None, "", f"needs {needed}")] if both else []
    documents: list[Document] = []
    faults: list[Fault] = []
    try:
        for path in _files(config):
            found, wrong = parse_documents(read_named(path), str(path))
            documents += found
            faults += wrong
    except OSError as error:
        return (), [Fault(CONFIG, None, "", f"{error.filename or config} cannot be read: {error.strerror}")]
    if not documents and not faults:
        return (), [Fault(CONFIG, None, "", f"there is no configuration in {config}")]
    plugins, wrong = read_plugins(documents)
    faults += wrong
    if not faults:
        programs = [directory / plugin.name for plugin in plugins]
        missing = [str(program) for program in programs if not os.access(program, os.X_OK) or program.is_dir()]
        faults += [Fault(DIRECTORY, None, "", f"{program} is not an executable program") for program in missing]
    return plugins, faults


def _files(config: Path) -> list[Path]:
    """Return the files of a configuration, in the order of their names. Raises OSError."""
    if not config.is_dir():
        return [config]
    return sorted(path for path in config.iterdir() if path.suffix in _SUFFIXES and path.is_file())
