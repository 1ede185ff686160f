"""Tokens over HTTP/2, beside servers that return the bytes of a token's answer."""

from . import load
from .comparison import Comparison
from .peers import answering_alike
from .servers import Ours


class OverHTTP2(Comparison):
    """The cached token over HTTP/2 with TLS 1.3, as browsers and mobile clients ask for it."""

    @property
    def steps(self):
        return [self.one_connection, self.many_connections]

    def one_connection(self):
        """cached token over HTTP/2, one connection"""
        self._requests("one connection with 100 streams", connections=1, streams=100)

    def many_connections(self):
        """cached token over HTTP/2, 64 connections"""
        self._requests("64 connections", connections=load.CONNECTIONS, streams=1)

    def _requests(self, name, connections, streams):
        subjects = answering_alike(self.directory, self.credentials, Ours(self.binary, self.credentials))
        self._beside(
            f"cached token over HTTP/2, {name}", subjects,
            lambda server: load.http2_requests(server, self.seconds, connections, streams), against="nginx", tls=True)
