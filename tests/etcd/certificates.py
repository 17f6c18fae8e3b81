"""Certificates for TLS on the loopback, created for one test."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """Files of an authority, a server and a client that it certified, and a second authority."""

    ca: Path
    other_ca: Path
    server_cert: Path
    server_key: Path
    client_cert: Path
    client_key: Path


def make_certificates(folder: Path) -> Certificates:
    """Return certificates, written into ``folder``."""
    ca_key, other_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca = _signed("quorate test authority", ca_key, ca_key, None)
    made = {}
    for name, usage in (
        ("server", ExtendedKeyUsageOID.SERVER_AUTH),
        ("client", ExtendedKeyUsageOID.CLIENT_AUTH),
    ):
        key = ec.generate_private_key(ec.SECP256R1())
        made[f"{name}_cert"] = _pem(
            folder / f"{name}.pem", _signed(name, key, ca_key, ca.subject, usage)
        )
        file = folder / f"{name}.key"
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        made[f"{name}_key"] = file
    other = _signed("another authority", other_key, other_key, None)
    return Certificates(
        ca=_pem(folder / "ca.pem", ca), other_ca=_pem(folder / "other.pem", other), **made
    )


def _signed(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    issuer: x509.Name | None,
    usage: x509.ObjectIdentifier | None = None,
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer or subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    )
    if usage is not None:
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        made = made.add_extension(names, critical=False)
        # etcd's JSON gateway connects to etcd as a client, with etcd's own certificate.
        usages = x509.ExtendedKeyUsage([usage, ExtendedKeyUsageOID.CLIENT_AUTH])
        made = made.add_extension(usages, critical=False)
    return made.sign(signer, hashes.SHA256())


def _pem(path: Path, certificate: x509.Certificate) -> Path:
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return path
