"""Verifies developer tokens with two implementations that are not ours: `cryptography` (OpenSSL) and PyJWT.

usage: verify_tokens.py PUBLIC_KEY.pem TOKENS.txt

Each line of TOKENS.txt is a token, a space, and the claims that it must bear, as JSON. Prints one line with how many
tokens were verified and how many of their signatures have an r or an s with a leading zero byte; exits 1 at the first
token that is not exactly as Apple takes it.
"""

import base64
import json
import sys

try:
    import jwt
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, utils
except ImportError as error:
    sys.exit(f"{error}; `make test` installs PyJWT and cryptography and sets TEST_PYTHON to their interpreter.")


def decode(part):
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def check(condition, what, token):
    if not condition:
        sys.exit(f"{what}: {token}")


def verify(key, token, claims):
    """Checks one token with both; says whether r and s are short."""
    header, payload, signature = token.split(".")
    check("=" not in token, "padding", token)
    raw = decode(signature)
    check(len(raw) == 64, "signature is not 64 bytes", token)
    r, s = int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big")
    try:
        der = utils.encode_dss_signature(r, s)
        key.verify(der, f"{header}.{payload}".encode("ascii"), ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        sys.exit(f"cryptography refuses the signature: {token}")
    unchecked = {"verify_exp": False, "verify_iat": False, "verify_nbf": False, "verify_aud": False}
    seen = jwt.decode(token, key, algorithms=["ES256"], options=unchecked)
    check(seen == claims, "claims differ", token)
    check(set(json.loads(decode(header))) == {"alg", "kid", "typ"}, "header members", token)
    return raw[0] == 0, raw[32] == 0


def main():
    with open(sys.argv[1], "rb") as file:
        key = serialization.load_pem_public_key(file.read())
    count = short_r = short_s = 0
    with open(sys.argv[2], encoding="ascii") as file:
        for line in file:
            token, claims = line.rstrip("\n").split(" ", 1)
            is_short_r, is_short_s = verify(key, token, json.loads(claims))
            count, short_r, short_s = count + 1, short_r + is_short_r, short_s + is_short_s
    print(count, short_r, short_s)


main()
