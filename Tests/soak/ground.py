"""The files of the servers: keys, certificates, credentials and settings.

Kubernetes writes files like this: a new folder has all of them, and one symbolic link is replaced at once. So no server
reads a new certificate with an old key.
"""

import datetime
import hashlib
import json
import os
import secrets
import string
from dataclasses import dataclass, field, replace

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import NameOID
from jwt.algorithms import ECAlgorithm

TEAM = "TEAM123456"
ISSUER, AUDIENCE = "https://id.example.com/", "music"
PAGE, PREVIEW = "https://app.example.com", "https://one.preview.example.com"


def private_pem(key):
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def new_key():
    return ec.generate_private_key(ec.SECP256R1())


@dataclass(frozen=True)
class SigningKey:
    """A MusicKit key under its ID."""

    id: str
    private: ec.EllipticCurvePrivateKey

    @staticmethod
    def new():
        letters = string.ascii_uppercase + string.digits
        return SigningKey("".join(secrets.choice(letters) for _ in range(10)), new_key())

    @property
    def file(self):
        return f"AuthKey_{self.id}.p8"

    def token(self, lifetime=3600):
        """A developer token that the emulator accepts."""
        now = int(datetime.datetime.now().timestamp())
        claims = {"iss": TEAM, "iat": now - 60, "exp": now + lifetime}
        return jwt.encode(claims, self.private, algorithm="ES256", headers={"kid": self.id})


@dataclass(frozen=True)
class Certificate:
    """The certificate of the servers, with its private key."""

    pem: str
    key: ec.EllipticCurvePrivateKey
    digest: str

    @property
    def key_digest(self):
        public = self.key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return hashlib.sha256(public).hexdigest()


class Authority:
    """The certificate authority that the clients trust."""

    def __init__(self):
        self.key = new_key()
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "soak")])
        self.pem = self._sign(self.name, self.key, x509.BasicConstraints(ca=True, path_length=None))
        self.pem = self.pem.public_bytes(Encoding.PEM).decode()

    def issue(self, key=None):
        key = key or new_key()
        names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
        made = self._sign(subject, key, names)
        digest = hashlib.sha256(made.public_bytes(Encoding.DER)).hexdigest()
        return Certificate(made.public_bytes(Encoding.PEM).decode(), key, digest)

    def _sign(self, subject, key, extension):
        now = datetime.datetime.now(datetime.timezone.utc)
        return (
            x509.CertificateBuilder().subject_name(subject).issuer_name(self.name).public_key(key.public_key())
            .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=90)).add_extension(extension, critical=False)
            .sign(self.key, hashes.SHA256()))


@dataclass(frozen=True)
class Settings:
    """The settings that the events change."""

    keys: tuple
    states: tuple
    certificate: Certificate
    # The API keys of the client `rotating`.
    rotating: tuple
    # The lifetime in seconds of the tokens of the client `web`.
    web_ttl: int = 3600
    # Text that is no JSON, in place of the settings.
    damage: str = ""

    def changed(self, **values):
        return replace(self, **values)


@dataclass
class Ground:
    """Writes the files, and knows every secret in them."""

    directory: os.PathLike
    port: int
    secrets: set = field(default_factory=set)
    generation: int = 0
    wrong_keys: list = field(default_factory=list)

    def __post_init__(self):
        self.current.mkdir()
        self.audit.parent.mkdir()
        self.authority = Authority()
        (self.directory / "authority.pem").write_text(self.authority.pem)
        self.provider = new_key()
        self.api_keys = {name: self.api_key() for name in ("backend", "limited")}

    @property
    def current(self):
        """The folder of the files that the settings name."""
        return self.directory / "mounted"

    @property
    def audit(self):
        return self.directory / "audit" / "audit.log"

    def api_key(self):
        key = secrets.token_urlsafe(24)
        self.secrets.add(key)
        return key

    def wrong_key(self, random):
        """An API key of no client: one of a few, so that the search for secrets stays short."""
        if not self.wrong_keys:
            self.wrong_keys = [self.api_key() for _ in range(20)]
        return random.choice(self.wrong_keys)

    def signing_key(self):
        key = SigningKey.new()
        self.secrets.update(line for line in private_pem(key.private).splitlines() if "-" not in line)
        return key

    def certificate(self, key=None):
        made = self.authority.issue(key)
        self.secrets.update(line for line in private_pem(made.key).splitlines() if "-" not in line)
        return made

    def jwt(self, lifetime=86_400):
        """A JWT of the client `members`."""
        now = int(datetime.datetime.now().timestamp())
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "user-1", "iat": now, "exp": now + lifetime}
        text = jwt.encode(claims, self.provider, algorithm="ES256", headers={"kid": "one"})
        self.secrets.add(text.rpartition(".")[2])
        return text

    def write(self, settings):
        """Writes all files as a new generation, and lets the servers see it."""
        self.generation += 1
        folder = self.current / f"..{self.generation}"
        folder.mkdir()
        for key in settings.keys:
            (folder / key.file).write_text(private_pem(key.private))
            (folder / key.file).chmod(0o600)
        (folder / "tls.crt").write_text(settings.certificate.pem)
        (folder / "tls.key").write_text(private_pem(settings.certificate.key))
        (folder / "tls.key").chmod(0o600)
        public = json.loads(ECAlgorithm.to_jwk(self.provider.public_key()))
        (folder / "jwks.json").write_text(json.dumps({"keys": [public | {"kid": "one", "alg": "ES256", "use": "sig"}]}))
        (folder / "config.json5").write_text(settings.damage or json.dumps(self._document(settings), indent=2))
        for file in folder.iterdir():
            if not (self.current / file.name).is_symlink():
                (self.current / file.name).symlink_to(f"..data/{file.name}")
        link = self.current / "..next"
        link.symlink_to(folder.name)
        link.rename(self.current / "..data")

    def _document(self, settings):
        keys = [
            {"id": key.id, "state": state} | ({} if state == "retired" else {"file": str(self.current / key.file)})
            for key, state in zip(settings.keys, settings.states, strict=True)]
        digest = lambda key: {"sha256": hashlib.sha256(key.encode()).hexdigest()}  # noqa: E731
        return {
            "musickit": {"teamID": TEAM, "keys": keys},
            "token": {"ttl": "2h"},
            "server": {
                "port": self.port, "reusePort": True, "loops": 2, "limits": {"memory": "64MB"},
                "tls": {"certificateFile": str(self.current / "tls.crt"), "keyFile": str(self.current / "tls.key")},
            },
            "admin": {"port": 0},
            "catalog": {
                # Smaller than the responses of a cycle, so that the cache is full after the first one.
                "cache": {"maxBytes": "4MB"},
                "timeouts": {"connect": "2s", "firstByte": "2s", "whole": "10s"},
            },
            "access": {
                "clients": [
                    {"id": "backend", "apiKey": digest(self.api_keys["backend"]), "catalog": True},
                    {"id": "rotating", "apiKey": [digest(key) for key in settings.rotating]},
                    {"id": "limited", "apiKey": digest(self.api_keys["limited"]),
                     "rateLimit": {"perSecond": 1, "burst": 2}},
                    {"id": "members", "jwt": {
                        "issuer": ISSUER, "audience": AUDIENCE, "jwksFile": str(self.current / "jwks.json")}},
                    {"id": "web", "origins": [PAGE, "https://*.preview.example.com"], "catalog": True,
                     "ttl": f"{settings.web_ttl}s"},
                ],
            },
            "audit": {"file": str(self.audit)},
            "log": {"level": "info", "format": "json"},
        }
