"""The kinds of requests, each with the responses that are right."""

import gzip
import itertools
import json
from dataclasses import dataclass
from typing import Callable

from ground import PAGE, PREVIEW
from judge import error, require

# The catalog's popular resources.
POPULAR = [
    "/v1/catalog/us/albums/1200868601",
    "/v1/catalog/us/albums/1200868601/tracks?limit=2",
    "/v1/catalog/us/songs/1200868616",
    "/v1/catalog/us/artists/82842423",
    "/v1/catalog/us/search?term=american&types=albums,songs",
    "/v1/storefronts/us",
]
TTL, FAILURES = 7200, {429, 502, 503, 504}
CODES = {429: "upstream_rate_limited", 502: "upstream_error", 503: "overloaded", 504: "upstream_timeout"}


@dataclass(frozen=True)
class Request:
    kind: str
    method: str
    wire: bytes
    # Judges a response; returns the developer token in it, if there is one.
    check: Callable
    # The client in the audit line; None if there is no such line.
    client: str | None = None
    closes: bool = False


def request(kind, method, target, check, client=None, fields=(), content=b"", closes=False):
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost", *fields]
    if content:
        lines.append(f"Content-Length: {len(content)}")
    return Request(kind, method, "\r\n".join([*lines, "", ""]).encode() + content, check, client, closes)


class Exchanges:
    """Makes requests of all kinds."""

    def __init__(self, ground, truth, judge, bodies):
        self.ground, self.truth, self.judge = ground, truth, judge
        # The contents that the emulators serve for each popular resource.
        self.bodies = bodies
        self.etags = {}
        self.numbers = itertools.count(1)
        self.jwt = ground.jwt()
        self.kinds, self.weights = zip(*[
            (self.token, 12), (self.token_ttl, 4), (self.token_text, 4), (self.token_post, 4), (self.token_head, 1),
            (self.token_jwt, 5), (self.token_page, 8), (self.token_rotating, 6), (self.token_former, 2),
            (self.token_limited, 1),
            (self.hit, 22), (self.hit_page, 6), (self.revalidation, 6), (self.miss, 7), (self.no_cache, 2),
            (self.unknown_album, 1), (self.huge, 0.5),
            (self.health, 3), (self.ready, 1), (self.description, 0.5), (self.preflight, 2),
            (self.bad_key, 2), (self.no_credential, 2), (self.bad_path, 2), (self.bad_catalog_path, 1),
            (self.bad_method, 1), (self.bad_json, 1), (self.bad_ttl, 1), (self.bad_origin, 1), (self.not_permitted, 1),
            (self.long_target, 1), (self.many_fields, 0.5), (self.no_http, 0.5),
        ])

    def any(self, random):
        [kind] = random.choices(self.kinds, self.weights)
        return kind(random)

    def _key(self, name="backend"):
        return f"Authorization: Bearer {self.ground.api_keys[name]}"

    # Tokens.

    def _granted(self, ttls=(TTL,), origin=None):
        def check(response, since):
            require(response.status == 200, "the status is not 200")
            require(response.fields["cache-control"] == "no-store", "a token may be stored")
            if response.fields["content-type"].startswith("application/json"):
                content = json.loads(response.content)
                text = content["token"]
                claims = self.judge.token(text, since, ttls, origin)
                require((content["issuedAt"], content["expiresAt"]) == (claims["iat"], claims["exp"]), "other times")
                require(content.get("origin") == origin, "the origin in the content is another one")
            else:
                text = response.content.decode()
                self.judge.token(text, since, ttls, origin)
            return text
        return check

    def token(self, random):
        return request("token", "GET", "/token", self._granted(), "backend", [self._key()])

    def token_ttl(self, random):
        ttl = random.choice((600, 1800, 3600))
        return request("token", "GET", f"/token?ttl={ttl}", self._granted((ttl,)), "backend", [self._key()])

    def token_text(self, random):
        return request("token", "GET", "/token", self._granted(), "backend", [self._key(), "Accept: text/plain"])

    def token_post(self, random):
        ttl = random.choice((900, 2400))
        content = json.dumps({"ttl": ttl}).encode()
        return request("token", "POST", "/token", self._granted((ttl,)), "backend", [self._key()], content)

    def token_head(self, random):
        check = lambda response, since: require(response.status == 200, "the status is not 200")  # noqa: E731
        return request("token HEAD", "HEAD", "/token", check, "backend", [self._key()])

    def token_jwt(self, random):
        return request(
            "token by JWT", "GET", "/token", self._granted(), "members", [f"Authorization: Bearer {self.jwt}"])

    def token_page(self, random):
        origin = random.choice((PAGE, PREVIEW))

        def check(response, since):
            require(response.fields.get("access-control-allow-origin") == origin, "the page may not read it")
            ttls = [ttl for ttl in (3600, 5400) if self.truth.web_ttls.right(ttl, since)]
            return self._granted(ttls, [origin])(response, since)
        return request("token for a page", "GET", "/token", check, "web", [f"Origin: {origin}"])

    def token_rotating(self, random):
        return self._rotating("token by a new API key", self.truth.api_key)

    def token_former(self, random):
        return self._rotating("token by an old API key", self.truth.former_api_key or self.truth.api_key)

    def _rotating(self, kind, key):
        def check(response, since):
            if response.status == 401:
                error(response, 401, "invalid_credentials")
                return require(self.truth.refused_api_keys.right(key, since), "the API key must be accepted")
            require(self.truth.api_keys.right(key, since), "the API key must be refused")
            return self._granted()(response, since)
        # The client is `rotating`, or none if the key is refused.
        return request(kind, "GET", "/token", check, "?", [f"X-API-Key: {key}"])

    def token_limited(self, random):
        def check(response, since):
            if response.status == 429:
                require(int(response.fields["retry-after"]) > 0, "there is no Retry-After")
                return error(response, 429, "rate_limited")
            return self._granted()(response, since)
        return request("token by a limited client", "GET", "/token", check, "limited", [self._key("limited")])

    # The catalog.

    def _catalog(self, target, statuses=(200,), accepts_gzip=False):
        def check(response, since):
            status = response.status
            if status in FAILURES:
                require(self.truth.failures.right(status, since), "Apple Music does not fail now")
                if status != 504 or b"only-if-cached" not in response.content:
                    error(response, status, CODES[status])
                return
            require(status in statuses, f"the status is none of {statuses}")
            require("cache-status" in response.fields, "there is no Cache-Status")
            if status == 304:
                return
            content = response.content
            if response.fields.get("content-encoding") == "gzip":
                require(accepts_gzip, "the client does not accept gzip")
                content = gzip.decompress(content)
            require(content in self.bodies[target], "the content is not the emulator's")
            if "etag" in response.fields:
                self.etags[target] = response.fields["etag"]
        return check

    def hit(self, random):
        target = random.choice(POPULAR)
        gzips = random.random() < 0.5
        fields = [self._key(), "Accept-Encoding: gzip"] if gzips else [self._key()]
        return request("catalog", "GET", target, self._catalog(target, accepts_gzip=gzips), "backend", fields)

    def hit_page(self, random):
        target = random.choice(POPULAR)
        return request("catalog for a page", "GET", target, self._catalog(target), "web", [f"Origin: {PAGE}"])

    def revalidation(self, random):
        target = random.choice(POPULAR)
        etag = self.etags.get(target)
        if etag is None:
            return self.hit(random)
        right = self._catalog(target, (200, 304))

        def check(response, since):
            # The emulators' contents have different addresses of pictures, hence different tags.
            is_same = response.fields.get("etag", "").removeprefix("W/") == etag.removeprefix("W/")
            require(response.status != 200 or not is_same, "the client has this content already")
            right(response, since)
        return request(
            "catalog if changed", "GET", target, check, "backend", [self._key(), f"If-None-Match: {etag}"])

    def miss(self, random):
        target = random.choice(POPULAR[:5])
        separator = "&" if "?" in target else "?"
        different = f"{target}{separator}sandbox[n]={next(self.numbers)}"
        return request("catalog miss", "GET", different, self._catalog(target), "backend", [self._key()])

    def no_cache(self, random):
        target = random.choice(POPULAR)
        return request(
            "catalog no-cache", "GET", target, self._catalog(target), "backend",
            [self._key(), "Cache-Control: no-cache"])

    def unknown_album(self, random):
        def check(response, since):
            if response.status in FAILURES:
                return self._catalog("")(response, since)
            require(response.status == 404, "the status is not 404")
            require(json.loads(response.content)["errors"][0]["status"] == "404", "the error is not Apple's")
        return request(
            "catalog 404", "GET", f"/v1/catalog/us/albums/{random.randint(10**8, 10**8 + 50)}", check, "backend",
            [self._key()])

    def huge(self, random):
        # Shorter and longer than the cache stores.
        size = random.choice((200_000, 800_000))
        target = f"/v1/catalog/us/albums/1200868601?sandbox[n]={next(self.numbers)}&sandbox[fault]=huge={size}"

        def check(response, since):
            if response.status in FAILURES:
                return self._catalog("")(response, since)
            require(response.status == 200, "the status is not 200")
            require(len(response.content) == size, f"the content has {len(response.content)} bytes, not {size}")
        return request("catalog, long", "GET", target, check, "backend", [self._key()])

    # Paths without a client.

    def health(self, random):
        def check(response, since):
            require(response.status == 200 and json.loads(response.content) == {"status": "ok"}, "it is not well")
        return request("health", "GET", "/healthz", check)

    def ready(self, random):
        def check(response, since):
            right = {200: ("ready", "degraded"), 503: ("draining",)}
            require(json.loads(response.content)["status"] in right[response.status], "status and content differ")
            require(response.status == 200 or self.truth.drains.right(True, since), "no server drains now")
        return request("readiness", "GET", "/readyz", check)

    def description(self, random):
        def check(response, since):
            require(json.loads(response.content)["openapi"].startswith("3.1"), "this is not OpenAPI 3.1")
        return request("OpenAPI", "GET", "/openapi.json", check)

    def preflight(self, random):
        def check(response, since):
            require(response.status == 204, "the status is not 204")
            require(response.fields.get("access-control-allow-origin") == PAGE, "the page may not send it")
        return request(
            "preflight", "OPTIONS", "/token", check, None, [f"Origin: {PAGE}", "Access-Control-Request-Method: GET"])

    # Errors on purpose.

    def _error(self, status, code):
        return lambda response, since: error(response, status, code)

    def _refused(self, method, target, status, code, client=None, fields=(), content=b"", closes=False):
        return request(
            f"error {status} {code}", method, target, self._error(status, code), client, fields, content, closes)

    def bad_key(self, random):
        key = self.ground.wrong_key(random)
        return self._refused("GET", "/token", 401, "invalid_credentials", "-", [f"Authorization: Bearer {key}"])

    def no_credential(self, random):
        return self._refused("GET", "/token", 401, "missing_credentials", "-")

    def bad_path(self, random):
        return self._refused("GET", f"/nothing/{random.random()}", 404, "not_found")

    def bad_catalog_path(self, random):
        # The server refuses it before it identifies the caller, so there is no audit line.
        return self._refused("GET", "/v1/catalog/us/albums/%2F", 400, "malformed_request", None, [self._key()])

    def bad_method(self, random):
        return self._refused("DELETE", "/token", 405, "method_not_allowed", None, [self._key()])

    def bad_json(self, random):
        return self._refused("POST", "/token", 400, "malformed_request", "backend", [self._key()], b"{no JSON")

    def bad_ttl(self, random):
        return self._refused("GET", "/token?ttl=5", 400, "invalid_parameter", "backend", [self._key()])

    def bad_origin(self, random):
        return self._refused(
            "GET", "/token?origin=https://evil.example", 403, "origin_not_allowed", "backend", [self._key()])

    def not_permitted(self, random):
        return self._refused(
            "GET", POPULAR[0], 404, "not_permitted", "members", [f"Authorization: Bearer {self.jwt}"])

    def long_target(self, random):
        return self._refused("GET", "/" + "a" * 9000, 414, "uri_too_long", closes=True)

    def many_fields(self, random):
        fields = [f"X-Field-{number}: {number}" for number in range(120)]
        return self._refused("GET", "/token", 431, "header_fields_too_large", fields=fields, closes=True)

    def no_http(self, random):
        return self._refused("GET", "no target", 400, "malformed_request", closes=True)
