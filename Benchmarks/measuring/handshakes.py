"""TLS handshakes, full and resumed, with both kinds of certificate and both versions."""

from . import load
from .comparison import Comparison
from .credentials import RSA_2048, Credentials
from .peers import answering_alike
from .servers import Ours

VERSIONS = ("1.3", "1.2")


class Handshakes(Comparison):
    """Connections without a request."""

    @property
    def steps(self):
        return [self.with_p256, self.with_rsa]

    def with_p256(self):
        """TLS handshakes with a P-256 certificate"""
        self._handshakes("P-256", self.credentials)

    def with_rsa(self):
        """TLS handshakes with an RSA-2048 certificate"""
        self._handshakes("RSA-2048", Credentials(self.directory / "rsa", RSA_2048))

    def _handshakes(self, name, credentials):
        subjects = answering_alike(self.directory, credentials, Ours(self.binary, credentials))
        for resumes in (False, True):
            for version in VERSIONS:
                self._beside(
                    f"{'resumed' if resumes else 'full'} TLS {version} handshake, {name}", subjects,
                    lambda server: load.handshakes(server, self.seconds, version, resumes), tls=True)
