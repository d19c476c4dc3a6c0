"""Tokens and rights, without a port, and token files that are refused at the start."""

from __future__ import annotations

from pathlib import Path

import pytest
from octofold_proto.errors import NotAllowed, Unauthenticated
from octofold_server.admission.access import Access, Right
from octofold_server.admission.refusals import Refusals
from octofold_server.system.watched_files import FileError


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "tokens").write_text("plain\n", encoding="utf-8")
    (tmp_path / "admin-tokens").write_text("admin\n", encoding="utf-8")
    return tmp_path / "tokens", tmp_path / "admin-tokens"


@pytest.mark.parametrize(
    ("plain", "admin", "nobody", "with_plain", "with_admin"),
    [
        (False, False, {Right.CALL, Right.ADMIN}, {Right.CALL, Right.ADMIN}, {Right.CALL, Right.ADMIN}),
        (True, False, set(), {Right.CALL}, set()),
        (False, True, {Right.CALL}, {Right.CALL}, {Right.CALL, Right.ADMIN}),
        (True, True, set(), {Right.CALL}, {Right.CALL, Right.ADMIN}),
    ],
)
@pytest.mark.parametrize("switched_on", [True, False])
def test_the_given_token_files_determine_the_rights_of_each_token(
    files: tuple[Path, Path],
    plain: bool,
    admin: bool,
    nobody: set[Right],
    with_plain: set[Right],
    with_admin: set[Right],
    switched_on: bool,
) -> None:
    refusals = Refusals()
    access = Access(
        files[0] if plain else None, files[1] if admin else None, admin=switched_on, refusals=refusals
    )
    assert access.open is (switched_on and not plain and not admin)
    refused = 0
    for token, rights in ((None, nobody), ("Bearer plain", with_plain), ("bearer  admin", with_admin)):
        for right in Right:
            allowed = right is Right.NOTHING or (right in rights and (switched_on or right is Right.CALL))
            if allowed:
                access.check(token, right)
            else:
                refused += 1
                with pytest.raises((Unauthenticated, NotAllowed)):
                    access.check(token, right)
    assert sum(refusals.counts().values()) == refused


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"", "contains no tokens"),
        (b"\n \n", "contains no tokens"),
        (b"one two\n", "line 1 is not a token"),
        ("good\ngr\u00fcn\n".encode(), "line 2 is not a token"),
        (b"\xff\n", "must be UTF-8 text, one token per line"),
    ],
)
@pytest.mark.parametrize("flag", ["--tokens", "--admin-tokens"])
def test_a_file_without_tokens_is_an_error_at_the_start(
    tmp_path: Path, flag: str, content: bytes | None, message: str
) -> None:
    file = tmp_path / "tokens"
    if content is not None:
        file.write_bytes(content)
    files = (file, None) if flag == "--tokens" else (None, file)
    with pytest.raises(FileError, match=message) as failure:
        Access(*files, admin=True, refusals=Refusals())
    assert str(file) in str(failure.value)
