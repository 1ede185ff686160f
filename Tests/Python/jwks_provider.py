"""An identity provider for tests: it publishes a JWK Set over HTTPS, and mints tokens with PyJWT, which is not ours.

usage: jwks_provider.py CERTIFICATE KEY [PORT]

PORT 0, the default, is a free one. Prints `Listening on https://127.0.0.1:PORT` and `Admin on http://127.0.0.1:PORT`.

On the first URL, `/.well-known/openid-configuration`, also behind a path, is the discovery document of the issuer at
that path, and every other path is the key set: public keys for ES256, RS256, PS256 and EdDSA, whose `kid` is the algorithm
in lower case and the generation, such as `es256-1`. What it does with a request is set by `PUT /?do=…` on the admin URL:

    ok             200 and the key set (the default)
    max-age-N      the same with `Cache-Control: public, max-age=N`
    status-N       the status N, with the key set for content
    redirect       302 to itself
    rubbish        200 and HTML
    empty          200 and a set without a key
    huge           200 and a set of a megabyte, in chunks
    long           200 and a content length that is never reached
    hold           answers when told so by `POST /release`
    drip           the head at once, then a byte a second
    close          closes the connection without an answer
    discovery-W    the key set as with ok, and W for the document: `status-N`, `rubbish`, `redirect`, `huge`, `hold`; or
                   `slash` (another issuer), `plain` (an http URL of the keys), `keyless` (no URL), `other` (the keys
                   are at another path), `twice` (a repeated member)
    down           does not listen any more; any other word lets it listen again, on the same port

On the admin URL:

    GET /          a JSON object: `requests` so far for the key set, `discoveries` for the document, `held` at present, `accept` and `target` of the last
    POST /rotate   new keys in place of the old; `?keep=1` publishes the old ones beside them, `?same=1` under the old names
    POST /release  answers what is held
    POST /mint     a token: `?alg=RS256` (ES256 if not said), `?keys=old` by the keys before the last rotation or
                   `?keys=unpublished` by others, `?kid=…` (empty for none); the content, if any, is a JSON object of claims
                   that replace the usual ones, null to leave one out. Usually: iss https://id.example.com/, aud music,
                   sub user-1, iat now, exp in an hour. What no provider does: `?alg=none`, `?alg=HS256` with a public
                   key in PEM as the secret, `?header=…` with a JSON object of header members, `?embed=1` for a `jwk`
"""

import asyncio
import base64
import hmac
import json
import socket
import ssl
import sys
import time
from urllib.parse import parse_qs, urlsplit

try:
    import jwt
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
    from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
except ImportError as error:
    sys.exit(f"{error}; `make test` installs PyJWT and cryptography and sets TEST_PYTHON to their interpreter.")


class Keys:
    """A generation of keys, one for each algorithm. RSA's take long to make: all generations share one."""

    number = rsa.generate_private_key(65537, 2048)

    def __init__(self, generation):
        curve, edwards = ec.generate_private_key(ec.SECP256R1()), ed25519.Ed25519PrivateKey.generate()
        self.private = {"ES256": curve, "RS256": self.number, "PS256": self.number, "EdDSA": edwards}
        self.names = {algorithm: f"{algorithm.lower()}-{generation}" for algorithm in self.private}
        makers = {"ES256": ECAlgorithm, "RS256": RSAAlgorithm, "PS256": RSAAlgorithm, "EdDSA": OKPAlgorithm}
        self.public = [
            makers[algorithm].to_jwk(key.public_key(), as_dict=True)
            | {"kid": self.names[algorithm], "alg": algorithm, "use": "sig"}
            for algorithm, key in self.private.items()
        ]

    def mint(self, algorithm, key_id, changes, members):
        now = int(time.time())
        claims = {"iss": "https://id.example.com/", "aud": "music", "sub": "user-1", "iat": now, "exp": now + 3600}
        claims = {name: value for name, value in (claims | changes).items() if value is not None}
        key_id = self.names.get(algorithm, self.names["ES256"]) if key_id is None else key_id
        header = ({"kid": key_id} if key_id else {}) | members
        if algorithm == "HS256":
            return self.confuse(header, claims)
        return jwt.encode(claims, self.private.get(algorithm), algorithm, headers=header)

    def confuse(self, header, claims):
        """A token whose secret everybody knows. PyJWT refuses to make one."""
        parts = [base64url(json.dumps(part).encode()) for part in ({"alg": "HS256", "typ": "JWT"} | header, claims)]
        public = self.private["ES256"].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return b".".join([*parts, base64url(hmac.digest(public, b".".join(parts), "sha256"))]).decode()


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=")


class State:
    behaviour = "ok"
    requests = discoveries = held = generation = 0
    accept = target = None
    keys = old = unpublished = None
    keeps_old = False
    release = asyncio.Event()
    server = None


def rotate(keeps_old=False, keeps_names=False):
    State.generation += 0 if keeps_names else 1
    State.old, State.keys = State.keys, Keys(State.generation)
    State.keeps_old = keeps_old


def key_set():
    kept = State.old.public if State.keeps_old and State.old else []
    return json.dumps({"keys": State.keys.public + kept}).encode()


# What the server under test sees


def head(status, **fields):
    lines = [f"HTTP/1.1 {status} Whatever"] + [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def answer(behaviour):
    """Head and content, whole."""
    status, content, fields = 200, key_set(), {"Content_Type": "application/jwk-set+json"}
    if behaviour.startswith("max-age-"):
        fields["Cache_Control"] = f"public, max-age={behaviour[8:]}"
    elif behaviour.startswith("status-"):
        status = int(behaviour[7:])
    elif behaviour == "redirect":
        status, fields["Location"] = 302, "/jwks.json"
    elif behaviour == "rubbish":
        content = b"<!DOCTYPE html><title>Welcome</title>"
    elif behaviour == "empty":
        content = b'{"keys":[]}'
    elif behaviour == "huge":
        content = json.dumps({"padding": "x" * 1_000_000}).encode()
        chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(content), content)
        return head(status, Transfer_Encoding="chunked", **fields) + chunks
    return whole(status, content, fields, behaviour)


def discovery(behaviour, target):
    """The response for a discovery document."""
    host = f"https://127.0.0.1:{State.socket.getsockname()[1]}"
    path = target.removesuffix("/.well-known/openid-configuration")
    kind = behaviour.removeprefix("discovery-") if behaviour.startswith("discovery-") else ""
    if kind.startswith("status-") or kind in ("redirect", "rubbish", "huge"):
        return answer(kind)
    # An issuer without a path ends in a slash here, as Auth0's do.
    issuer = host + (path or "/")
    document = {"issuer": issuer, "jwks_uri": host + "/jwks.json", "response_types_supported": ["code"]}
    if kind == "slash":
        document["issuer"] = issuer[:-1] if issuer.endswith("/") else issuer + "/"
    elif kind == "plain":
        document["jwks_uri"] = host.replace("https", "http") + "/jwks.json"
    elif kind == "other":
        document["jwks_uri"] = host + "/other.json"
    elif kind == "keyless":
        del document["jwks_uri"]
    content = json.dumps(document)
    if kind == "twice":
        content = content[:-1] + ', "issuer": "https://evil.example"}'
    return whole(200, content.encode(), {"Content_Type": "application/json"}, behaviour)


def whole(status, content, fields, behaviour):
    length = len(content) * 2 if behaviour in ("long", "drip") else len(content)
    return head(status, Content_Length=length, **fields) + content


async def serve(reader, writer):
    try:
        while lines := (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n"):
            fields = dict(line.lower().split(": ", 1) for line in lines[1:-2])
            target = lines[0].split(" ")[1]
            if target.endswith("/.well-known/openid-configuration"):
                State.discoveries += 1
                if State.behaviour == "discovery-hold":
                    State.held += 1
                    await State.release.wait()
                    State.held -= 1
                writer.write(discovery(State.behaviour, target))
                await writer.drain()
                continue
            State.requests += 1
            State.accept, State.target = fields.get("accept"), target
            if State.behaviour == "hold":
                State.held += 1
                await State.release.wait()
                State.held -= 1
            if State.behaviour == "close":
                return
            response = answer(State.behaviour)
            while State.behaviour == "drip" and response:
                writer.write(response[:200])
                await writer.drain()
                response = response[200:]
                await asyncio.sleep(1)
            writer.write(response)
            await writer.drain()
            if State.behaviour == "long":
                return
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


def bind(port):
    """A socket that keeps its port while it does not listen, so that nobody else gets it meanwhile.

    Only a port that is asked for by its number is kept so (Linux), hence one that is free is found first.
    """
    while True:
        number = port
        if not number:
            with socket.create_server(("127.0.0.1", 0)) as free:
                number = free.getsockname()[1]
        bound = socket.socket()
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind(("127.0.0.1", number))
            return bound
        except OSError:
            bound.close()
            if port:
                raise


async def behave(behaviour, context):
    State.behaviour = behaviour
    if behaviour == "down" and State.server:
        State.server.close()
        State.socket.shutdown(socket.SHUT_RDWR)
        State.server = None
    elif behaviour != "down" and not State.server:
        State.server = await asyncio.start_server(serve, sock=State.socket.dup(), ssl=context)


# What the test says and asks


def mint(query, content):
    which = query.get("keys", ["present"])[0]
    keys = {"present": State.keys, "old": State.old, "unpublished": State.unpublished}[which]
    changes = json.loads(content) if content else {}
    members = json.loads(query.get("header", ["{}"])[0]) | ({"jwk": keys.public[0]} if "embed" in query else {})
    return keys.mint(query.get("alg", ["ES256"])[0], query.get("kid", [None])[0], changes, members).encode()


async def serve_admin(reader, writer, context):
    try:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, target, _ = lines[0].split(" ")
        fields = dict(line.lower().split(": ", 1) for line in lines[1:-2])
        content = await reader.readexactly(int(fields.get("content-length", 0)))
        path, query = urlsplit(target).path, parse_qs(urlsplit(target).query, keep_blank_values=True)
        document = None
        if method == "PUT":
            await behave(query["do"][0], context)
        elif path == "/rotate":
            rotate("keep" in query, "same" in query)
        elif path == "/release":
            State.release.set()
            State.release = asyncio.Event()
        elif path == "/mint":
            document = mint(query, content)
        counts = {name: getattr(State, name) for name in ("requests", "discoveries", "held", "accept", "target", "generation")}
        document = document or json.dumps(counts).encode()
        writer.write(head(200, Connection="close", Content_Length=len(document)) + document)
        await writer.drain()
    finally:
        writer.close()


async def main():
    certificate, key, *rest = sys.argv[1:]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    rotate()
    State.unpublished = Keys(0)
    State.socket = bind(int(rest[0]) if rest else 0)
    await behave("ok", context)
    admin = await asyncio.start_server(lambda *streams: serve_admin(*streams, context), "127.0.0.1", 0)
    print(f"Listening on https://127.0.0.1:{State.socket.getsockname()[1]}", flush=True)
    print(f"Admin on http://127.0.0.1:{admin.sockets[0].getsockname()[1]}", flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
