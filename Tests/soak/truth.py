"""What is right at a time: the events change it, and the judge asks for it."""

import math
import time


class Allowed:
    """Values that are right now, and until when each former one was."""

    def __init__(self, *values):
        self._until = dict.fromkeys(values, math.inf)

    def begin(self, value):
        """The value is right from now on. Call this before the change."""
        self._until[value] = math.inf

    def end(self, value):
        """The value is wrong in responses to requests from now on. Call this when the change has taken effect."""
        self._until[value] = time.monotonic()

    def right(self, value, since):
        """Whether the value is right in a response to a request that began at `since`."""
        return self._until.get(value, -math.inf) >= since


class Truth:
    """Everything that changes."""

    def __init__(self, key, api_key, certificate, web_ttl):
        # The public halves of all keys ever, by ID, and the IDs that may sign.
        self.public = {key.id: key.private.public_key()}
        self.keys = Allowed(key.id)
        # The API keys of the client `rotating` that are accepted, and those that are refused.
        self.api_keys = Allowed(api_key)
        self.refused_api_keys = Allowed()
        # The digests of certificates in full handshakes, and of the private keys whose tickets are accepted.
        self.certificates = Allowed(certificate.digest)
        self.ticket_keys = Allowed(certificate.key_digest)
        self.web_ttls = Allowed(web_ttl)
        # The statuses of requests that Apple Music fails.
        self.failures = Allowed()
        # Whether a server drains.
        self.drains = Allowed()
        self.certificate_keys = {certificate.digest: certificate.key_digest}
        # The API key that the load uses for `rotating`, and a former one.
        self.api_key, self.former_api_key = api_key, None

    def add_key(self, key):
        self.public[key.id] = key.private.public_key()
        self.keys.begin(key.id)
