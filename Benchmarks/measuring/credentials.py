"""Keys and certificates, new for every run."""

from .tools import output

P256 = ("ec", "-pkeyopt", "ec_paramgen_curve:P-256")
RSA_2048 = ("rsa:2048",)


class Credentials:
    """A MusicKit key, and a certificate for localhost with its key, in files of `directory`."""

    def __init__(self, directory, kind=P256):
        directory.mkdir(exist_ok=True)
        self.signing_key = directory / "AuthKey_BENCH12345.p8"
        self.certificate = directory / "certificate.pem"
        self.key = directory / "key.pem"
        # HAProxy wants both in one file.
        self.bundle = directory / "bundle.pem"
        output(
            "openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256",
            "-out", self.signing_key)
        output(
            "openssl", "req", "-x509", "-newkey", *kind, "-nodes",
            "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
            "-keyout", self.key, "-out", self.certificate)
        self.bundle.write_text(self.certificate.read_text() + self.key.read_text())
        for secret in (self.signing_key, self.key, self.bundle):
            secret.chmod(0o600)
