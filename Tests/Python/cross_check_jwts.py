"""Makes JWTs with PyJWT, or verifies those of others with it: an implementation that is not ours.

usage: cross_check_jwts.py make COUNT      prints a JWK Set on one line, then COUNT lines for each algorithm: a JWT
       cross_check_jwts.py verify < FILE   reads the same, prints how many were verified, and exits 1 if one is not

Issuer, audience and times are those of the test: iss https://id.example.com/, aud music, now 1795000000.
"""

import json
import random
import sys

try:
    import jwt
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
except ImportError as error:
    sys.exit(f"{error}; `make test` installs PyJWT and cryptography and sets TEST_PYTHON to their interpreter.")

ISSUER, AUDIENCE, NOW = "https://id.example.com/", "music", 1_795_000_000


def make_keys():
    """For each algorithm: the key's name, the private key, its JWK."""
    curve, edwards = ec.generate_private_key(ec.SECP256R1()), ed25519.Ed25519PrivateKey.generate()
    numbers = [rsa.generate_private_key(65537, 2048), rsa.generate_private_key(3, 3072)]
    return {
        "ES256": ("ec", curve, ECAlgorithm.to_jwk(curve.public_key(), as_dict=True)),
        "RS256": ("rsa", numbers[0], RSAAlgorithm.to_jwk(numbers[0].public_key(), as_dict=True)),
        "PS256": ("pss", numbers[1], RSAAlgorithm.to_jwk(numbers[1].public_key(), as_dict=True)),
        "EdDSA": ("ed", edwards, OKPAlgorithm.to_jwk(edwards.public_key(), as_dict=True)),
    }


def make(count):
    keys = make_keys()
    print(json.dumps({"keys": [jwk | {"kid": name, "use": "sig"} for name, _, jwk in keys.values()]}))
    for algorithm, (name, key, _) in keys.items():
        for index in range(count):
            audience = random.choice([AUDIENCE, [AUDIENCE], ["video", AUDIENCE]])
            claims = {"iss": ISSUER, "aud": audience, "exp": NOW + index + 1, "iat": NOW - index, "sub": f"user-{index}"}
            claims["text"] = random.choice(["", "é", "\u2028", "𝄞", '"\\/'])
            print(jwt.encode(claims, key, algorithm, headers={"kid": name}))


def verify():
    keys = jwt.PyJWKSet.from_dict(json.loads(sys.stdin.readline()))
    options = {"require": ["exp", "iss", "aud"], "verify_exp": False, "verify_iat": False}
    count = 0
    for line in sys.stdin:
        token = line.strip()
        header = jwt.get_unverified_header(token)
        key = keys[header["kid"]].key
        jwt.decode(token, key, [header["alg"]], options, audience=AUDIENCE, issuer=ISSUER)
        count += 1
    print(count)


if sys.argv[1:2] == ["make"]:
    make(int(sys.argv[2]))
else:
    verify()
