"""What stands in for Apple: an upstream that answers at once, and one that lets its callers wait."""

import sys
from pathlib import Path

from . import tools
from .process import Process, free_port
from .servers import Nginx, Site

# About 1 kB, like the Apple Music API's description of a song.
SONG = (
    '{"id":"1200868608","type":"songs","href":"/v1/catalog/us/songs/1200868608","attributes":{"albumName":"American '
    'Teen","artistName":"Khalid","artwork":{"bgColor":"dfc292","height":4000,"textColor1":"0d0b09","textColor2":'
    '"2b1d14","textColor3":"37302a","textColor4":"4f3e2d","url":"https://is1-ssl.mzstatic.com/image/thumb/Music122/v4/'
    '6a/4c/b1/6a4cb14a/886446389691.jpg/{w}x{h}bb.jpg","width":4000},"composerName":"Khalid Robinson, Joshua Scruggs '
    '& Hiko Momoji","discNumber":1,"durationInMillis":250000,"genreNames":["R&B/Soul","Music","Pop","Contemporary '
    'R&B"],"hasLyrics":true,"isAppleDigitalMaster":true,"isrc":"USRC11700013","name":"American Teen","playParams":{"id"'
    ':"1200868608","kind":"song"},"previews":[{"url":"https://audio-ssl.itunes.apple.com/itunes-assets/AudioPreview115/'
    'v4/c0/4f/d1/c04fd1a6/mzaf_4733158742911457124.plus.aac.p.m4a"}],"releaseDate":"2017-02-24","trackNumber":1,"url":'
    '"https://music.apple.com/us/album/american-teen/1200868603?i=1200868608"}}')

# Fields of Apple's responses. The first two are for callers, the other fields only for Apple's hosts.
FIELDS = {
    "X-Apple-Jingle-Correlation-Key": "IU4GQVRRGQYDAN3BGBTDKZJQ",
    "X-Apple-Request-UUID": "45386856-3134-3060-3761-306635653000",
    "Access-Control-Allow-Origin": "*",
    "Strict-Transport-Security": "max-age=31536000; includeSubDomains",
}


# Stale at once, so that a cache revalidates for each request. The first field is for nginx, which otherwise does not
# store a response whose Cache-Control says so; it has to come before that.
STALE_FIELDS = {"X-Accel-Expires": "@1", "Cache-Control": "max-age=0", "ETag": '"1200868603"'} | FIELDS


def ready(directory, credentials, songs, fields=FIELDS, over_http2=False):
    """nginx that answers every path with so many songs, and a conditional request with 304. A context manager."""
    added = "\n".join(f"    add_header {name} '{value}';" for name, value in fields.items())
    # A literal may not be longer than 4 kB.
    site = Site(listen="http2" if over_http2 else "", server=f"""
{added}
    default_type application/json;
    set $song '{SONG}';
    location / {{
      if ($http_if_none_match) {{ return 304; }}
      return 200 '{{"data":[{",".join(["$song"] * songs)}]}}';
    }}""")
    return Nginx(directory, credentials, site).start(tls=over_http2, cores=tools.LOAD_CORES)


def of_size(directory, credentials, size):
    """nginx that answers every path with a file of so many bytes. A context manager."""
    file = directory / f"body-{size}"
    file.write_bytes(b"x" * size)
    fields = "\n".join(f"    add_header {name} '{value}';" for name, value in FIELDS.items())
    site = Site(http="  sendfile on;\n  tcp_nopush on;", server=f"""
{fields}
    default_type application/json;
    etag off;
    root {directory};
    location / {{ try_files /{file.name} =404; }}""")
    return Nginx(directory, credentials, site).start(cores=tools.LOAD_CORES)


class Waiting:
    """A process that answers every request after so many seconds; never, without any. A context manager."""

    def __init__(self, seconds=None):
        self.seconds = seconds

    def __enter__(self):
        port = free_port()
        command = [sys.executable, "-B", Path(__file__).parent / "waiting.py", str(port), str(self.seconds or "")]
        self.process = Process(command, port, tools.LOAD_CORES)
        return self.process.__enter__()

    def __exit__(self, *exception):
        self.process.__exit__(*exception)


def over_http2(directory, credentials, port):
    """nginx with HTTP/2 and TLS, 100 streams a connection like Apple's, in front of a local port."""
    site = Site(listen="http2", room=3, http="  http2_max_concurrent_streams 100;", server=f"""
    location / {{
      proxy_pass http://127.0.0.1:{port};
      proxy_read_timeout 1h;
    }}""")
    return Nginx(directory, credentials, site).start(tls=True, connections=10_000, cores=tools.LOAD_CORES)
