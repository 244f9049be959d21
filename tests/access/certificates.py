"""Certificates of tests, made by the ``openssl`` program."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

RSA = ("-newkey", "rsa:2048")
ECDSA = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
PSS = (*RSA, "-sigopt", "rsa_padding_mode:pss", "-sigopt", "rsa_pss_saltlen:-1")

ALGORITHMS = {
    "rsa-sha256": (*RSA, "-sha256"),
    "rsa-sha384": (*RSA, "-sha384"),
    "rsa-sha512": (*RSA, "-sha512"),
    "rsa-sha224": (*RSA, "-sha224"),
    "pss-sha256": (*PSS, "-sha256"),
    "pss-sha512": (*PSS, "-sha512"),
    "ecdsa-sha256": (*ECDSA, "-sha256"),
    "ecdsa-sha384": (*ECDSA, "-sha384"),
    "ecdsa-sha512": (*ECDSA, "-sha512"),
    "ed25519": ("-newkey", "ed25519"),
}
"""Options of ``openssl req``, by the algorithm of the signature."""


@dataclass(frozen=True)
class Certificate:
    """A certificate and its private key, as files of PEM."""

    certificate: Path
    key: Path


def self_signed(directory: Path, name: str, algorithm: str = "rsa-sha256") -> Certificate:
    """Make a certificate of a common name that signs itself."""
    return _made(directory, name, ALGORITHMS[algorithm])


def signed(directory: Path, name: str, authority: Certificate) -> Certificate:
    """Make a certificate of a common name that an authority signs; an empty name makes one without."""
    signing = ("-CA", str(authority.certificate), "-CAkey", str(authority.key))
    return _made(directory, name, (*ALGORITHMS["rsa-sha256"], *signing))


def _made(directory: Path, name: str, options: Sequence[str]) -> Certificate:
    made = Certificate(directory / f"{name or 'none'}.crt", directory / f"{name or 'none'}.key")
    subject = f"/O=tests/CN={name}" if name else "/O=tests"
    files = ("-keyout", str(made.key), "-out", str(made.certificate))
    command = ["openssl", "req", "-x509", "-nodes", "-days", "2", "-subj", subject, *files, *options]
    subprocess.run(command, check=True, capture_output=True)
    made.key.chmod(0o600)
    return made
