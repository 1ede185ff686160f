"""nginx and HAProxy before the upstream, set up as ours is: connections kept, a credential added, the same fields."""

from . import load
from .peers import HAProxy
from .servers import Nginx, Site

# What ours sends upstream.
_REQUEST_FIELDS = {
    "Authorization": f"Bearer {'e' * 240}",
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": "musickit-token-server",
    "Via": "1.1 musickit-token-server",
}

CACHE = """
      proxy_cache answers;
      proxy_cache_key $request_uri;
      proxy_cache_valid 200 1h;"""

# Requests for the same resource wait for the first response, as in our server.
LOCK = """
      proxy_cache_lock on;
      proxy_cache_lock_age 1h;
      proxy_cache_lock_timeout 1h;"""

# A body that the caller does not take soon enough is not written to a file.
STREAM = """
      proxy_max_temp_file_size 0;"""

REVALIDATE = """
      proxy_cache_revalidate on;"""


# A single quotation mark within single quotation marks.
_IN_NGINX = r"\'"
_IN_HAPROXY = r"'\''"


def _quoted(value, escape):
    """A field value in single quotation marks. It may have such marks itself, as Content-Security-Policy does."""
    return "'" + value.replace("'", escape) + "'"


def nginx(directory, credentials, port, answer=None, upstream_fields=(), directives=""):
    """nginx before a port. With an answer of ours, its answers bear the same fields."""
    fields = "".join(f'      proxy_set_header {name} "{value}";\n' for name, value in _REQUEST_FIELDS.items())
    changes = ""
    if answer:
        dropped, added = _differences(answer, upstream_fields)
        changes = "\n".join([
            *(f"    proxy_hide_header {name};" for name in dropped),
            *(f"    add_header {name} {_quoted(value, _IN_NGINX)};" for name, value in added)])
    return Nginx(directory, credentials, Site(room=2, http=f"""
  sendfile on;
  tcp_nopush on;
  proxy_cache_path {directory}/answers-{port} levels=1:2 keys_zone=answers:64m max_size=2g use_temp_path=off;
  upstream apple {{
    server 127.0.0.1:{port};
    keepalive {load.CONNECTIONS};
    keepalive_requests 1000000000;
  }}""", server=f"""
{changes}
    location /v1/ {{
      proxy_pass http://apple;
      proxy_http_version 1.1;
      proxy_read_timeout 1h;
      proxy_set_header Connection "";
{fields}
{directives}
    }}"""))


def haproxy(directory, credentials, port, answer, upstream_fields):
    """HAProxy before a port that speaks HTTP/2 over TLS."""
    dropped, added = _differences(answer, upstream_fields)
    return HAProxy(directory, credentials, "  default_backend apple", "\n".join([
        "backend apple",
        *(f"  http-request set-header {name} '{value}'" for name, value in _REQUEST_FIELDS.items()),
        *(f"  http-response del-header {name}" for name in dropped),
        *(f"  http-response set-header {name} {_quoted(value, _IN_HAPROXY)}" for name, value in added),
        f"  server apple 127.0.0.1:{port} ssl verify required ca-file {credentials.certificate}"
        " sni str(localhost) alpn h2"]))


def _differences(answer, upstream_fields):
    """The fields of the upstream that our answer lacks, and those that it has beyond them."""
    present = {name.lower() for name in upstream_fields}
    return [name for name in upstream_fields if name.lower() not in answer.fields], answer.extra_fields(present)
