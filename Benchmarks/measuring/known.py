"""Callers that the server tells apart by a field of their requests: by an API key, an address or an origin."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from .servers import Answer, Nginx, Ours, Site

# Slow, so that no bucket is full again while it is measured: a server may forget one that is.
RATE = "rateLimit: { perSecond: 1, burst: 1000000 }"
# A client may have no more.
ORIGINS = 1_000


@dataclass(frozen=True)
class Known:
    """So many callers, the field by which they are known, with a file of its values, and the servers that know them."""

    field: str
    file: Path
    subjects: tuple


def keys(comparison, count):
    """Clients with an API key; in nginx, a `map` of them."""
    values = [f"mkts_{number:049d}" for number in range(count)]
    access = {"clients": [
        {"id": f"c{number}", "apiKey": {"sha256": hashlib.sha256(value.encode()).hexdigest()}}
        for number, value in enumerate(values)]}
    return _mapped(comparison, "Authorization", [f"Bearer {value}" for value in values], "keys", access)


def origins(comparison, count):
    """Origins of clients, a thousand each; in nginx, a `map` of them."""
    values = [f"https://{number}.a" for number in range(count)]
    access = {"clients": [
        {"id": f"c{start}", "origins": values[start:start + ORIGINS]} for start in range(0, count, ORIGINS)]}
    return _mapped(comparison, "Origin", values, "origins", access)


def addresses(comparison, count):
    """Addresses with a rate that is never reached, told by a trusted proxy; in nginx, `limit_req` and `realip`."""
    values = [f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}" for number in range(count)]
    settings = {"ACCESS_ANONYMOUS": f"{{ token: true, {RATE} }}", "SERVER_TRUSTED_PROXIES": '["127.0.0.1"]'}
    # `return` alone would respond before `limit_req` counts.
    return _known(
        comparison, "X-Forwarded-For", values, settings, """
  limit_req_zone $binary_remote_addr zone=addresses:64m rate=1r/s;
  open_file_cache max=16;
  open_file_cache_valid 1h;
  open_file_cache_errors on;""", lambda answer: f"""
    set_real_ip_from 127.0.0.1;
    real_ip_header X-Forwarded-For;
    limit_req zone=addresses burst=1000000 nodelay;
    location = /token {{ try_files /none @token; }}
    location @token {{ return 200 '{answer}'; }}""")


def _mapped(comparison, field, values, name, access):
    """Callers of a list, which is in a file."""
    file = comparison.directory / f"{name}-{len(values)}.json5"
    file.write_text(json.dumps({"access": access}, separators=(",", ":")))
    lines = "\n".join(f'    "{value}" {number};' for number, value in enumerate(values, 1))
    # An empty variable counts as unset.
    return _known(
        comparison, field, values, {"MUSICKIT_CONFIG": str(file), "ACCESS_ANONYMOUS": ""}, f"""
  map_hash_max_size {max(2048, 4 * len(values))};
  map_hash_bucket_size 128;
  map $http_{field.lower()} $client {{
{lines}
  }}""", lambda answer: f"""
    if ($client = '') {{ return 401; }}
    location = /token {{ return 200 '{answer}'; }}""")


def _known(comparison, field, values, settings, http, directives):
    file = comparison.directory / f"{field}-{len(values)}"
    file.write_text("\n".join(values) + "\n")
    ours = Ours(comparison.binary, comparison.credentials, settings)
    with ours.start() as server:
        answer = Answer(server.port, fields={field: values[0]})
    nginx = Nginx(comparison.directory, comparison.credentials, Site(http=http, server=f"""
{answer.added_fields()}
    default_type {answer.fields["content-type"]};
{directives(answer.body)}"""))
    return Known(field, file, (ours, nginx))
