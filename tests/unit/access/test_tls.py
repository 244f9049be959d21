"""Files of certificates and keys: what can be used, and what is refused, with the file that it is about."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from access.certificates import Certificate, self_signed
from headwater.errors import AccessError
from headwater.walsender.access.tls import check_key_file, load_encryption


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """Make a certificate."""
    return self_signed(tmp_path_factory.mktemp("certificate"), "localhost", "ecdsa-sha256")


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o601, 0o602])
def test_a_key_that_others_may_use(certificate: Certificate, tmp_path: Path, mode: int) -> None:
    key = Path(shutil.copy(certificate.key, tmp_path))
    key.chmod(mode)
    with pytest.raises(AccessError) as raised:
        load_encryption(certificate.certificate, key)
    assert raised.value.message == f'private key file "{key}" has group or world access'


def test_a_directory_for_a_key(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="is not a regular file"):
        check_key_file(tmp_path)
    with pytest.raises(AccessError, match="could not access private key file: No such file or directory"):
        check_key_file(tmp_path / "none")


def test_a_key_with_a_passphrase(certificate: Certificate, tmp_path: Path) -> None:
    """Nobody is asked for it."""
    key = tmp_path / "locked.key"
    command = ["openssl", "pkey", "-in", str(certificate.key), "-aes256", "-passout", "pass:secret", "-out", str(key)]
    subprocess.run(command, check=True)
    key.chmod(0o600)
    with pytest.raises(AccessError, match="the private key is protected by a passphrase, expected one without"):
        load_encryption(certificate.certificate, key)


def test_files_that_do_not_fit(certificate: Certificate, tmp_path: Path) -> None:
    other = self_signed(tmp_path, "other", "ecdsa-sha256")
    nothing = tmp_path / "empty"
    nothing.touch(0o600)
    for files in ((certificate.certificate, other.key), (nothing, certificate.key), (certificate.certificate, nothing)):
        with pytest.raises(AccessError, match="could not load server certificate and private key"):
            load_encryption(*files)
    with pytest.raises(AccessError, match="could not load server certificate file: No such file or directory"):
        load_encryption(tmp_path / "none", certificate.key)
    with pytest.raises(AccessError, match="could not load root certificate file"):
        load_encryption(certificate.certificate, certificate.key, nothing)


def test_text_before_the_certificate(certificate: Certificate, tmp_path: Path) -> None:
    """Authorities write what the certificate says in front of it."""
    with_text = tmp_path / "text.crt"
    command = ["openssl", "x509", "-in", str(certificate.certificate), "-text", "-out", str(with_text)]
    subprocess.run(command, check=True)
    expected = load_encryption(certificate.certificate, certificate.key).binding
    assert load_encryption(with_text, certificate.key).binding == expected is not None
