"""HAProxy and h2o, as they are set up beside ours, and nginx with the same answer."""

from . import tools
from .process import Process, free_port
from .servers import Answer, Nginx, Site


def answering_alike(directory, credentials, ours):
    """Ours, and the servers that return the bytes of its answer to a request for a token."""
    with ours.start() as server:
        answer = Answer(server.port)
    nginx = Nginx(directory, credentials, Site(f"""
{answer.added_fields()}
    default_type {answer.fields["content-type"]};
    location = /token {{ return 200 '{answer.body}'; }}"""))
    return ours, nginx, HAProxy.returning(directory, credentials, answer), H2O(directory, credentials, answer)


class HAProxy:
    """HAProxy, with one thread unless it is started with more."""

    name = "HAProxy"

    def __init__(self, directory, credentials, frontend, backend=""):
        self.directory = directory
        self.credentials = credentials
        self.frontend = frontend
        self.backend = backend

    @classmethod
    def returning(cls, directory, credentials, answer):
        """One that returns the bytes of an answer. It creates no field by itself but the length."""
        fields = " ".join(f"hdr {name} '{value}'" for name, value in answer.fields.items() if name not in _CREATED)
        return cls(
            directory, credentials,
            f"  http-request return status 200 content-type {answer.fields['content-type']}"
            f" string '{answer.body}' {fields}")

    def start(self, tls=False, logs=False, connections=1000, cores=tools.SERVER_CORES, loops=1):
        """Starts it: with HTTPS, with access lines, for so many connections."""
        port = free_port()
        file = self.directory / f"haproxy-{port}.cfg"
        # The process has /dev/null as its standard output.
        log = "log stdout format raw daemon"
        file.write_text(f"""
global
  nbthread {loops}
  maxconn {connections + 100}
  # It asks for two descriptors for each connection, and needs one.
  no strict-limits
  {log if logs else ""}
  ssl-default-bind-options ssl-min-ver TLSv1.2
defaults
  mode http
  timeout connect 5s
  timeout client 1h
  timeout server 1h
  http-reuse always
{"  log global" if logs else ""}
{"  option httplog" if logs else ""}
frontend callers
  bind 127.0.0.1:{port} backlog 4096 {f"ssl crt {self.credentials.bundle} alpn h2,http/1.1" if tls else ""}
{self.frontend}
{self.backend}
""")
        return Process([tools.find("haproxy"), "-q", "-db", "-f", file], port, cores)


class H2O:
    """h2o, with one thread unless it is started with more, which serves a file with the bytes of an answer."""

    name = "h2o"

    def __init__(self, directory, credentials, answer):
        self.directory = directory
        self.credentials = credentials
        self.answer = answer
        self.files = directory / "h2o"
        self.files.mkdir(exist_ok=True)
        (self.files / "token").write_text(answer.body)

    def start(self, tls=False, logs=False, connections=1000, cores=tools.SERVER_CORES, loops=1):
        """Starts it: with HTTPS, with access lines, for so many connections."""
        port = free_port()
        file = self.directory / f"h2o-{port}.yaml"
        certificate = (
            f", ssl: {{ certificate-file: {self.credentials.certificate}, key-file: {self.credentials.key},"
            " minimum-version: TLSv1.2 }") if tls else ""
        fields = "\n".join(
            f'header.add: "{name}: {value}"' for name, value in self.answer.fields.items()
            if name not in {"content-type", "date"} | _CREATED)
        file.write_text(f"""
num-threads: {loops}
user: root
max-connections: {connections + 100}
send-server-name: OFF
error-log: /dev/null
{"access-log: /dev/null" if logs else ""}
listen: {{ host: 127.0.0.1, port: {port}{certificate} }}
file.etag: OFF
file.mime.setdefaulttype: {self.answer.fields["content-type"]}
header.unset: Last-Modified
header.unset: Accept-Ranges
{fields}
hosts: {{ default: {{ paths: {{ /: {{ file.dir: {self.files} }} }} }} }}
""")
        return Process([tools.find("h2o"), "-c", file], port, cores)


# Fields that both create themselves.
_CREATED = {"content-length", "connection"}
