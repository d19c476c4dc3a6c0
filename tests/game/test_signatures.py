"""Signatures of versions: the official tool reads ours and we read its, and nothing else is taken for one."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from octofold_game import signatures
from octofold_game.model import SIGNATURE_FILE
from octofold_game.signatures import PublicKeys, SignatureError, SigningKey, files_in, sha256_of
from support.signing import KeyPair, holds_officially, new_keys, sign_officially


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A signed folder, with a folder inside."""
    folder = tmp_path / "7"
    (folder / "inside").mkdir(parents=True)
    (folder / "card.json").write_text("{}")
    (folder / "model.onnx").write_bytes(bytes(range(256)) * 5000)
    (folder / "inside" / "caf\u00e9.txt").write_text("")
    return folder


@pytest.fixture
def keys(tmp_path: Path) -> KeyPair:
    return new_keys(tmp_path, "ours")


def digests(folder: Path) -> dict[str, str]:
    return {path: sha256_of(folder / path) for path in files_in(folder)}


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1()], ids=lambda curve: curve.name)
def test_the_official_tool_reads_our_signatures_and_we_read_its(
    folder: Path, tmp_path: Path, curve: ec.EllipticCurve
) -> None:
    keys = new_keys(tmp_path, "key", curve)
    keys.sign(folder)
    assert holds_officially(folder, keys)
    ours = PublicKeys(keys.public).read(folder)
    sign_officially(folder, keys)
    assert PublicKeys(keys.public).read(folder) == ours
    assert ours.digests == digests(folder)


def test_any_key_of_the_file_is_trusted_and_no_other(folder: Path, tmp_path: Path, keys: KeyPair) -> None:
    old, other = new_keys(tmp_path, "old", ec.SECP521R1()), new_keys(tmp_path, "other")
    both = tmp_path / "both.pub"
    both.write_bytes(old.public.read_bytes() + b"# and the new one\n" + keys.public.read_bytes())
    for pair in (old, keys):
        pair.sign(folder)
        assert PublicKeys(both).read(folder).digests == digests(folder)
    other.sign(folder)
    with pytest.raises(SignatureError, match=r"model.sig was made with another key than .*both.pub"):
        PublicKeys(both).read(folder)


def changed(change: Callable[[Any, Any], None]) -> Callable[[bytes], bytes]:
    """Changes a bundle and its statement, and signs nothing."""

    def apply(content: bytes) -> bytes:
        bundle = json.loads(content)
        statement = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
        change(bundle, statement)
        bundle["dsseEnvelope"]["payload"] = base64.b64encode(
            json.dumps(statement, indent=2).encode()
        ).decode()
        return json.dumps(bundle).encode()

    return apply


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda _: b"", "is not a signature of a model"),
        (lambda _: b"[" * 100_000, "is not a signature of a model"),
        (lambda _: b"\xff\x00", "is not a signature of a model"),
        (lambda content: content[:-40], "is not a signature of a model"),
        (lambda _: b"{}", "missing required field"),
        (lambda _: b" " * (signatures.MAX_SIGNATURE_BYTES + 1), "it has more than"),
        (changed(lambda _, s: s["predicate"]["resources"].pop()), "does not hold"),
        (changed(lambda b, _: b["verificationMaterial"].pop("publicKey")), "was not made with a key"),
        (changed(lambda b, _: b.update(mediaType="text/plain")), "is not a signature of a model"),
        (changed(lambda b, _: b["dsseEnvelope"].update(payloadType="x")), "is not a signature of a model"),
        (changed(lambda b, _: b["dsseEnvelope"].update(signatures=[])), "is not a signature of a model"),
    ],
)
def test_what_is_no_signature_is_refused_in_one_line(
    folder: Path, keys: KeyPair, damage: Callable[[bytes], bytes], why: str
) -> None:
    keys.sign(folder)
    file = folder / SIGNATURE_FILE
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(SignatureError, match=why) as refused:
        PublicKeys(keys.public).read(folder)
    assert str(refused.value).startswith(SIGNATURE_FILE)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda s: s.update(_type="other"), "signs 'https://model_signing/signature/v1.0', expected"),
        (lambda s: s.update(predicateType="https://example.org/other"), "signs 'https://example.org/other'"),
        (lambda s: s["predicate"]["serialization"].update(method="shards"), "lists 'shards' with 'sha256'"),
        (
            lambda s: s["predicate"]["serialization"].update(hash_type="blake2b"),
            "lists 'files' with 'blake2b'",
        ),
        (lambda s: s["predicate"]["resources"].pop(), "contradicts itself"),
        (lambda s: s["subject"][0]["digest"].update(sha256="0" * 64), "contradicts itself"),
        (lambda s: s["subject"].append(s["subject"][0]), "contradicts itself"),
    ],
)
def test_what_a_trusted_key_signs_must_be_a_list_of_the_files(
    folder: Path, keys: KeyPair, change: Callable[[Any], object], why: str
) -> None:
    keys.sign(folder)
    file = folder / SIGNATURE_FILE
    bundle = json.loads(file.read_bytes())
    envelope = bundle["dsseEnvelope"]
    statement = json.loads(base64.b64decode(envelope["payload"]))
    change(statement)
    payload, kind = json.dumps(statement).encode(), envelope["payloadType"].encode()
    key = load_pem_private_key(keys.private.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    signed = key.sign(
        b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload), ec.ECDSA(hashes.SHA256())
    )
    envelope["payload"] = base64.b64encode(payload).decode()
    envelope["signatures"][0]["sig"] = base64.b64encode(signed).decode()
    file.write_text(json.dumps(bundle))
    with pytest.raises(SignatureError, match=why):
        PublicKeys(keys.public).read(folder)


def test_a_signature_without_a_hint_is_tried_with_every_key(
    folder: Path, tmp_path: Path, keys: KeyPair
) -> None:
    keys.sign(folder)
    file = folder / SIGNATURE_FILE
    bundle = json.loads(file.read_bytes())
    del bundle["verificationMaterial"]["publicKey"]["hint"]
    file.write_text(json.dumps(bundle))
    assert PublicKeys(keys.public).read(folder).digests == digests(folder)
    with pytest.raises(SignatureError, match="does not hold"):
        PublicKeys(new_keys(tmp_path, "other").public).read(folder)


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
    other = tmp_path / "ed25519.pub"
    public = ed25519.Ed25519PrivateKey.generate().public_key()
    other.write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
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


def test_a_folder_of_too_many_files_is_not_read(folder: Path) -> None:
    assert files_in(folder) == ["card.json", "inside/caf\u00e9.txt", "model.onnx"]
    for number in range(signatures.MAX_FILES):
        (folder / f"{number}.bin").touch()
    with pytest.raises(SignatureError, match="more than 1000 files"):
        files_in(folder)
