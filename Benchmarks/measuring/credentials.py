"""Keys and a certificate, made anew for every run."""

from .tools import output


class Credentials:
    """A MusicKit key, and a P-256 certificate for localhost with its key, in files of `directory`."""

    def __init__(self, directory):
        self.signing_key = directory / "AuthKey_BENCH12345.p8"
        self.certificate = directory / "certificate.pem"
        self.key = directory / "key.pem"
        output(
            "openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256",
            "-out", self.signing_key)
        output(
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
            "-keyout", self.key, "-out", self.certificate)
        self.signing_key.chmod(0o600)
        self.key.chmod(0o600)
