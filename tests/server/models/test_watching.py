"""A watched folder: what changes it, and what does not."""

from __future__ import annotations

import os
from pathlib import Path

from octofold_server.models.repository import fingerprint
from support.servers import WriteVersion


def test_files_that_become_readable_are_news_and_new_inodes_with_the_same_bytes_are_not(
    write_version: WriteVersion, tmp_path: Path
) -> None:
    card = write_version() / "card.json"
    before = fingerprint(tmp_path / "models")
    status = card.stat()
    copy = tmp_path / "copy"
    copy.write_bytes(card.read_bytes())
    copy.chmod(status.st_mode)
    os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
    copy.replace(card)
    assert fingerprint(tmp_path / "models") == before
    card.chmod(0o600)
    assert fingerprint(tmp_path / "models") != before
