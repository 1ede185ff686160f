"""Judges each response, and keeps what the closing checks compare with the logs."""

import base64
import hashlib
import json
import threading
import time
from collections import Counter
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils

from ground import TEAM


# A request that takes longer has waited for its turn at Apple Music.
PROMPT = 1


class Wrong(Exception):
    """What is wrong with a response."""


def require(condition, what):
    if not condition:
        raise Wrong(what)


@dataclass(frozen=True)
class Claim:
    """A response as its client saw it."""

    kind: str
    status: int
    # The client's ID in the audit log; None if the request leaves no audit line.
    client: str | None
    # The SHA-256 of the developer token in it.
    token: str | None


class Judge:
    """Counts responses, and lists the wrong ones."""

    def __init__(self, truth):
        self.truth = truth
        self.lock = threading.Lock()
        self.findings = []
        self.claims = {}
        self.counts = Counter()
        # Requests whose response the client did not want: they may have an access line, and need not.
        self.abandoned = 0
        self.retried = 0
        # Requests that Apple Music served, since the last one that failed or had to wait.
        self.streak = 0
        self._verified = {}

    def wrong(self, what, evidence=""):
        with self.lock:
            self.findings.append(f"{what}\n      {evidence[:800]}".rstrip())

    def take(self, request, response, since):
        """Judges the response to a request that began at `since`."""
        token = None
        try:
            identity = response.fields.get("x-request-id", "")
            require(len(identity) == 32, "the response has no request ID")
            token = request.check(response, since)
        except Wrong as wrong:
            age = time.monotonic() - since
            self.wrong(f"{request.kind}: {wrong}", f"after {age:.3f} s: {response} to {request.wire[:200]!r}")
        except (ValueError, KeyError, IndexError, TypeError) as error:
            self.wrong(f"{request.kind}: unreadable, {error!r}", f"{response} to {request.wire[:200]!r}")
        with self.lock:
            self.counts[request.kind, response.status] += 1
            if identity in self.claims:
                self.findings.append(f"{request.kind}: the request ID {identity} was there before")
            digest = token and hashlib.sha256(token.encode()).hexdigest()
            self.claims[identity] = Claim(request.kind, response.status, request.client, digest)
            if request.kind == "catalog miss":
                is_well = response.status == 200 and time.monotonic() - since < PROMPT
                self.streak = self.streak + 1 if is_well else 0

    def lost(self, request, reason):
        with self.lock:
            self.counts[request.kind, "lost"] += 1
        self.wrong(f"{request.kind}: the request was lost", f"{reason}; {request.wire[:200]!r}")

    def count(self, name, number=1):
        with self.lock:
            setattr(self, name, getattr(self, name) + number)

    def sent(self, statuses):
        """The number of catalog responses so far with one of these statuses."""
        with self.lock:
            return sum(
                count for (kind, status), count in self.counts.items()
                if status in statuses and kind.startswith("catalog"))

    # Developer tokens.

    def token(self, text, since, ttls, origin=None):
        """Judges a developer token, and returns its claims."""
        if text not in self._verified:
            self._verified[text] = self._verify(text)
        key, claims = self._verified[text]
        require(self.truth.keys.right(key, since), f"the key {key} must not sign any more")
        now = time.time()
        lifetime = claims["exp"] - claims["iat"] - 60
        require(lifetime in ttls, f"the lifetime {lifetime} is not one of {ttls}")
        require(now < claims["exp"] <= now + lifetime + 2, "exp is in the past, or too late")
        require(claims["exp"] - now > lifetime / 2 - 2, "less than half of the lifetime is left")
        require(claims["iat"] <= now, "iat is in the future")
        require(claims.get("origin") == origin, f"the origin claim is {claims.get('origin')}, not {origin}")
        return claims

    def _verify(self, text):
        header, payload, signature = text.split(".")
        head, claims = json.loads(_decoded(header)), json.loads(_decoded(payload))
        require(set(head) == {"alg", "kid", "typ"} and head["alg"] == "ES256", f"the header is {head}")
        require(claims["iss"] == TEAM, "iss is not the team")
        key = self.truth.public.get(head["kid"])
        require(key is not None, f"no key has ever had the ID {head['kid']}")
        raw = _decoded(signature)
        require(len(raw) == 64, "the signature is not 64 bytes long")
        pair = utils.encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
        try:
            key.verify(pair, f"{header}.{payload}".encode(), ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            raise Wrong("the signature does not verify") from None
        return head["kid"], claims

    @property
    def tokens(self):
        """All developer tokens that clients got."""
        return list(self._verified)


def _decoded(part):
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def error(response, status, code):
    """Judges an error of the server's own."""
    require(response.status == status, f"the status is not {status}")
    [found] = json.loads(response.content)["errors"]
    require(found["code"] == code, f"the code is not {code}")
    require(found["status"] == str(status), "the status in the content is another one")
    require(found["id"] == response.fields["x-request-id"], "the ID in the content is another one")
    require(found["title"] and found["detail"], "the error has no title or no detail")
