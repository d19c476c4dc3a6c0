"""Signatures of cards: OpenSSL reads ours and we read its, and nothing else is taken for one."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from octofold_game.contract.model import CARD_FILE, OLD_SIGNATURE_FILE, SIGNATURE_FILE
from octofold_game.contract.signatures import MAX_SIGNATURE_BYTES, PublicKeys, SignatureError, SigningKey
from support.signing import KeyPair, new_keys, openssl, written


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "7"
    folder.mkdir()
    (folder / CARD_FILE).write_text("{}")
    return folder


@pytest.fixture
def keys(tmp_path: Path) -> KeyPair:
    return new_keys(tmp_path, "ours")


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1()], ids=lambda curve: curve.name)
def test_openssl_reads_signatures_by_elliptic_curves_and_they_read_its(
    folder: Path, tmp_path: Path, curve: ec.EllipticCurve
) -> None:
    keys = new_keys(tmp_path, "key", curve)
    keys.sign(folder)
    card, signature = folder / CARD_FILE, folder / SIGNATURE_FILE
    openssl("dgst", "-sha256", "-verify", keys.public, "-signature", signature, card)
    openssl("dgst", "-sha256", "-sign", keys.private, "-out", signature, card)
    keys.check(folder)


def test_openssl_reads_signatures_by_ed25519_and_they_read_its(folder: Path, tmp_path: Path) -> None:
    keys = written(tmp_path, "key", ed25519.Ed25519PrivateKey.generate())
    keys.sign(folder)
    card, signature = folder / CARD_FILE, folder / SIGNATURE_FILE
    raw = ("pkeyutl", "-rawin", "-in", card)
    openssl(*raw, "-verify", "-pubin", "-inkey", keys.public, "-sigfile", signature)
    openssl(*raw, "-sign", "-inkey", keys.private, "-out", signature)
    keys.check(folder)


def test_any_key_of_the_file_is_trusted_and_no_other(folder: Path, tmp_path: Path, keys: KeyPair) -> None:
    old = written(tmp_path, "old", ed25519.Ed25519PrivateKey.generate())
    both = tmp_path / "both.pub"
    both.write_bytes(old.public.read_bytes() + b"# and the new one\n" + keys.public.read_bytes())
    for pair in (old, keys):
        pair.sign(folder)
        PublicKeys(both).check(folder, b"{}")
    new_keys(tmp_path, "other").sign(folder)
    with pytest.raises(SignatureError, match=r"^card.json.sig does not hold: no key in .*both.pub has"):
        PublicKeys(both).check(folder, b"{}")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "does not hold"),
        (b"\xff\x00", "does not hold"),
        (b"0" * 64, "does not hold"),
        (b"0" * (MAX_SIGNATURE_BYTES + 1), "cannot be read: it has more than 1024 bytes"),
    ],
)
def test_what_is_no_signature_is_refused_in_one_line(
    folder: Path, tmp_path: Path, keys: KeyPair, content: bytes, why: str
) -> None:
    (folder / SIGNATURE_FILE).write_bytes(content)
    for pair in (keys, written(tmp_path, "other", ed25519.Ed25519PrivateKey.generate())):
        with pytest.raises(SignatureError, match=f"^{SIGNATURE_FILE} {why}") as refused:
            pair.check(folder)
        assert "\n" not in str(refused.value)


def test_another_card_than_the_signed_one_is_refused(folder: Path, keys: KeyPair) -> None:
    keys.sign(folder)
    (folder / CARD_FILE).write_text("{ }")
    with pytest.raises(SignatureError, match="does not hold"):
        keys.check(folder)


def test_a_signature_of_the_old_format_is_named(folder: Path, keys: KeyPair) -> None:
    with pytest.raises(SignatureError, match=r"^card.json.sig is missing: the version is not signed$"):
        keys.check(folder)
    (folder / OLD_SIGNATURE_FILE).write_text("{}")
    with pytest.raises(SignatureError, match=r"^model.sig has an old format: sign the version again$"):
        keys.check(folder)


def test_private_keys_are_refused_with_the_reason(tmp_path: Path, keys: KeyPair) -> None:
    locked = new_keys(tmp_path, "locked", password=b"secret")
    wrong = new_keys(tmp_path, "wrong", ec.SECP256K1())
    SigningKey(locked.private, b"secret")
    for file, password, why in (
        (tmp_path / "none", None, "No such file"),
        (keys.public, None, "not a private key in PEM"),
        (wrong.private, None, "P-256, P-384 or P-521"),
        (locked.private, None, "its password is missing"),
        (locked.private, b"hunter2", "or the password is wrong"),
        (keys.private, b"hunter2", "is not encrypted"),
    ):
        with pytest.raises(SignatureError, match=why) as refused:
            SigningKey(file, password)
        assert str(refused.value).startswith(str(file))
        assert "hunter2" not in str(refused.value)


def test_public_keys_are_refused_with_the_reason(tmp_path: Path, keys: KeyPair) -> None:
    other = new_keys(tmp_path, "other", ec.SECP256K1()).public
    broken = tmp_path / "broken.pub"
    broken.write_bytes(keys.public.read_bytes().replace(b"M", b"#", 1))
    for file, why in (
        (keys.private, "contains no public key"),
        (other, "P-256, P-384 or P-521"),
        (broken, "cannot be read"),
        (tmp_path, "not a regular file"),
    ):
        with pytest.raises(SignatureError, match=why):
            PublicKeys(file)
