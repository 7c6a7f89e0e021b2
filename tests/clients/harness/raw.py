"""HTTP byte by byte, for what no client sends, and what a server holds while it gets it."""

import json
import os
import re
import socket
from contextlib import contextmanager, suppress
from pathlib import Path

from .checks import equal, until

# A server that does not answer within this time hangs.
PATIENCE = 60

# Where the Tape REST API stands.
TAPE = "/.well-known/wlcg-tape-rest-api"
LOCKINFO = (
    "<D:lockinfo xmlns:D='DAV:' {1}><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype>"
    "<D:owner>{0}</D:owner></D:lockinfo>"
)
LOCK = LOCKINFO.format("", "")
# Bodies of the methods that take one, with room for what stands in it and for attributes of its root.
XML = {
    "PROPFIND": "<D:propfind xmlns:D='DAV:' {1}><D:prop>{0}</D:prop></D:propfind>",
    "PROPPATCH": "<D:propertyupdate xmlns:D='DAV:' {1}><D:set><D:prop>{0}</D:prop></D:set></D:propertyupdate>",
    "LOCK": LOCKINFO,
}
# Heads that were begun and not ended, and when: a later test looks what became of them.
BEGUN = []


class Line:
    """One connection to the WebDAV listener of a server."""

    def __init__(self, server, patience=PATIENCE):
        host, port = server.webdav.removeprefix("http://").split(":")
        self.socket = socket.create_connection((host, int(port)), patience)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        """Sends bytes; a server that has closed meanwhile has its reasons, which its answer says."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(data)

    def answer(self, method="GET"):
        """Reads one answer to its end: status, header as text in lower case, body. 0: it was closed without one."""
        data = b""
        with suppress(ConnectionResetError):
            while b"\r\n\r\n" not in data and (more := self.socket.recv(1 << 16)):
                data += more
            head, _, body = data.partition(b"\r\n\r\n")
            length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
            if method == "HEAD" or head[9:12] in (b"204", b"304"):
                return int(head[9:12]), head.decode("latin-1").lower(), ""
            while (not length or len(body) < int(length[1])) and (more := self.socket.recv(1 << 16)):
                body += more
                if not length and body.endswith(b"0\r\n\r\n"):
                    break
            return int(head[9:12] or 0), head.decode("latin-1").lower(), body.decode("latin-1")
        return (int(data[9:12]) if data[9:12].isdigit() else 0), data.decode("latin-1").lower(), ""

    def is_closed(self):
        """Whether the server has ended the connection; nothing is waited for."""
        self.socket.settimeout(0)
        try:
            return self.socket.recv(1 << 16) == b""
        except BlockingIOError:
            return False
        except ConnectionResetError:
            return True


def head(method, path, *lines, key=None, close=True):
    """The head of a request with these lines beside the usual ones."""
    usual = ["Host: kist"] * (not any(line.lower().startswith("host") for line in lines))
    usual += [f"Authorization: Bearer {key}"] * bool(key) + ["Connection: close"] * close
    text = "\r\n".join([f"{method} {path} HTTP/1.1", *usual, *lines])
    return text.encode("utf-8", "surrogateescape") + b"\r\n\r\n"


def ask(server, method, path, *lines, body=None, key="", close=True):
    """One request on a connection of its own: status, header, body. `key`: None for nobody's, else the administrator's."""
    key = server.key if key == "" else key
    body = body.encode() if isinstance(body, str) else body
    if body is not None:
        lines += (f"Content-Length: {len(body)}",)
    with Line(server) as line:
        line.send(head(method, path, *lines, key=key, close=close) + (body or b""))
        return line.answer(method)


def memory(server, which="VmHWM"):
    """What the process has in memory, in MB; `VmHWM`: the most since `calm` began."""
    text = Path(f"/proc/{server.pid}/status").read_text()
    return int(re.search(rf"{which}:\s+(\d+) kB", text)[1]) // 1000


def descriptors(server):
    """How many descriptors it has open."""
    return len(os.listdir(f"/proc/{server.pid}/fd"))


def tree(server):
    """All that stands in the archive."""
    return server.command("ls", "-r", "--json", "/").exits().out


@contextmanager
def calm(server, megabytes=150, changes=False):
    """Demands that after what is done within it the server answers, that it took no more memory than this meanwhile,
    holds no more descriptors than before, and that nothing half is there (`changes`: something new may be)."""
    files = None if changes else tree(server)
    before = descriptors(server)
    Path(f"/proc/{server.pid}/clear_refs").write_text("5")
    had = memory(server)
    yield
    equal(ask(server, "PROPFIND", "/", "Depth: 0")[0], 207, "the server answers")
    took = memory(server) - had
    if took > megabytes:
        raise AssertionError(f"it took {took} MB, more than {megabytes} MB")
    until("descriptors are closed", lambda: descriptors(server) <= before + 8, 45)
    if not changes:
        equal(tree(server), files, "what there is")
    for line in json.loads(server.command("lock", "ls", "--json").out or "[]"):
        raise AssertionError(f"a lock stays: {line}")


def made(place, directory):
    """A directory with a file in it; gives the administrator's server."""
    server = place.server
    server.command("mkdir", "-p", directory).exits()
    equal(ask(server, "PUT", f"{directory}/f", body="123456789")[0], 201)
    return server


def several(cases):
    """Runs cases and says all that went otherwise than wanted, with their names."""
    wrong = [
        f"{name}: {found}, wanted {wanted}"
        for name, found, wanted in cases
        if found not in (wanted if isinstance(wanted, tuple) else (wanted,))
    ]
    if wrong:
        raise AssertionError("\n".join(wrong))
