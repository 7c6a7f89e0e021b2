#!/usr/bin/env python3
"""Grows one instance and measures at each size what must not grow: curves over the number of files.

    benches/growth.py [--kist PROGRAM] [--dir DIRECTORY] [--pool DIRECTORY] [--files 1000000] [--json FILE]

Files of a kilobyte come in by ten connections, a thousand to a directory. At each size (10,000 and each three and
ten times as much, up to --files) short calls are timed alone, then bulk work is done with a put and a stat beside it
every few milliseconds, then the server is stopped, started, restored from its backup and started again. The
catalogue and its backup lie in DIRECTORY, the pool's drives in --pool (memory, if there is some). Exits with 1 if
something grows steeper than with the number of files, or if bulk work holds up a put or a stat for longer than
--held-up. Only the standard library is used.
"""

import argparse
import http.client
import json
import math
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

BODY = bytes(range(256)) * 4
WRITERS = 10
PER_DIRECTORY = 1_000
SAMPLES = 300
# A figure below this many seconds is not judged: noise is larger than it.
FLOOR = 0.05
# The exponent of a curve over the number of files that counts as linear, with what measuring adds.
LINEAR = 1.2


class Server:
    def __init__(self, kist, directory, pool):
        self.kist, self.directory, self.pool = kist, directory, pool
        self.instance, self.backup, self.key_file = (str(directory / name) for name in ("data", "backup", "key"))
        self.process = None

    def make(self):
        self.run("init", self.instance, "--demo", "--listen", "127.0.0.1:0", "--cartridges", "4",
                 "--cartridge-size", "1GB", "--save-key", self.key_file)
        self.key = pathlib.Path(self.key_file).read_text().strip()
        if self.pool:
            here = pathlib.Path(self.instance) / "pool"
            for drive in sorted(here.iterdir()):
                there = self.pool / drive.name
                shutil.move(drive, there)
                drive.symlink_to(there)
        os.makedirs(self.backup, exist_ok=True)
        with open(os.path.join(self.instance, "kist.toml"), "a") as file:
            file.write(f'\n[backup]\ndirectory = "{self.backup}"\nship_every = "1s"\n')

    def run(self, *arguments):
        done = subprocess.run([self.kist, *arguments], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"kist {' '.join(arguments)}: {done.returncode}\n{done.stderr}")
        return done.stdout

    def client(self, *arguments):
        return self.run(*arguments, "--server", self.url, "--key-file", self.key_file, "--quiet")

    def start(self):
        """Starts the server; gives the seconds until it answers."""
        begin = time.monotonic()
        log = open(self.directory / "server.log", "a")
        self.process = subprocess.Popen([self.kist, "serve", self.instance, "--log", "warn"],
                                        stdout=subprocess.PIPE, stderr=log, text=True)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the server did not start: see {self.directory / 'server.log'}")
        self.url = line.split()[-1]
        self.address = self.url.removeprefix("http://")
        Connection(self).ask("GET", "/api/v1/status")
        return time.monotonic() - begin

    def stop(self):
        begin = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(timeout=600):
            raise SystemExit("the server did not stop cleanly")
        return time.monotonic() - begin


class Connection:
    def __init__(self, server):
        self.http = http.client.HTTPConnection(server.address, timeout=600)
        self.headers = {"Authorization": "Bearer " + server.key}

    def ask(self, method, target, body=None, expected=(200, 201, 202, 204)):
        self.http.request(method, target, body, self.headers)
        reply = self.http.getresponse()
        content = reply.read()
        if reply.status not in expected:
            raise SystemExit(f"{method} {target}: {reply.status} {content[:300]!r}")
        return content

    def timed(self, method, target, body=None):
        begin = time.monotonic()
        self.ask(method, target, body)
        return time.monotonic() - begin


def path_of(number, tree="g"):
    directory = number // PER_DIRECTORY
    return f"/{tree}/{directory // 100}/{directory % 100}/f{number % PER_DIRECTORY}"


def grow(server, begin, end, tree="g"):
    """Puts files with several connections in processes of their own: one interpreter alone would be the limit."""
    started = time.monotonic()
    children = []
    for writer in range(WRITERS):
        child = os.fork()
        if child == 0:
            try:
                connection = Connection(server)
                for number in range(begin + writer, end, WRITERS):
                    connection.ask("PUT", "/data" + path_of(number, tree), BODY)
                os._exit(0)
            except BaseException as error:  # The parent sees the exit code; the words go to the terminal.
                print(error, file=sys.stderr)
                os._exit(1)
        children.append(child)
    if any([os.waitpid(child, 0)[1] for child in children]):
        raise SystemExit("a writer failed")
    return (end - begin) / (time.monotonic() - started)


class Beside:
    """A put and a stat every few milliseconds, beside what is done in the block; remembers the slowest."""

    def __init__(self, server, size):
        self.server, self.size = server, size
        self.slowest, self.over, self.error = 0.0, threading.Event(), None
        self.thread = threading.Thread(target=self.work)

    def work(self):
        try:
            connection, number = Connection(self.server), 0
            while not self.over.is_set():
                for method, target, body in (("PUT", f"/data/beside/{self.size}-{number % 100}", BODY),
                                             ("GET", "/api/v1/stat?path=" + path_of(number * 7919 % self.size), None)):
                    self.slowest = max(self.slowest, connection.timed(method, target, body))
                number += 1
                time.sleep(0.003)
        except BaseException as error:
            self.error = error

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        if self.error:
            raise self.error


def quantile(times, share):
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


def short_calls(server, size):
    connection = Connection(server)
    puts = [connection.timed("PUT", f"/data/alone/{size}-{n}", BODY) for n in range(SAMPLES)]
    stats = [connection.timed("GET", "/api/v1/stat?path=" + path_of(n * 7919 % size)) for n in range(SAMPLES)]
    lists = [connection.timed("GET", "/api/v1/list?limit=1000&path=" + os.path.dirname(path_of(n * 104729 % size)))
             for n in range(20)]
    looks = [connection.timed("GET", "/api/v1/" + target) for target in ("status", "pool", "queue", "requests")]
    return {"put p50": quantile(puts, 0.5), "put p99": quantile(puts, 0.99), "stat p50": quantile(stats, 0.5),
            "list 1,000 p50": quantile(lists, 0.5), "slowest screen": max(looks)}


def bulk(server, size):
    """Each kind of work over many files."""
    figures, held = {}, 0.0
    grow(server, 0, size // 10, f"t{size}")

    def work(name, *arguments):
        nonlocal held
        with Beside(server, size) as beside:
            begin = time.monotonic()
            out = server.client(*arguments)
            figures[name] = time.monotonic() - begin
        figures[f"slowest beside {name}"] = beside.slowest
        held = max(held, beside.slowest)
        return out

    request = json.loads(work("stage", "stage", "--json", "/g"))
    number = str(request.get("request", request.get("id")))
    work("release", "release", number)
    work("rm -r of a tenth, to its end", "rm", "-r", f"/t{size}")
    figures["held up"] = held
    return figures


def restarts(server):
    figures = {"stop": server.stop(), "start": server.start()}
    begin = time.monotonic()
    server.client("backup", "now")
    figures["snapshot"] = time.monotonic() - begin
    server.stop()
    begin = time.monotonic()
    server.run("restore", "--quiet", "--from", server.backup, "--move-aside", server.instance)
    figures["restore"] = time.monotonic() - begin
    figures["first start after it"] = server.start()
    begin = time.monotonic()
    connection = Connection(server)
    while (json.loads(connection.ask("GET", "/api/v1/status")).get("settling") or {}).get("stage") not in (
            None, "settled", "unsettled"):
        time.sleep(0.01)
    figures["settled behind it"] = time.monotonic() - begin
    for aside in pathlib.Path(server.instance).glob("catalogue.before*"):
        shutil.rmtree(aside)
    return figures


def sizes_up_to(files):
    sizes = [10_000 * 10 ** power * factor for power in range(5) for factor in (1, 3)]
    return [size for size in sizes if size < files] + [files]


def table(rows):
    names = list(dict.fromkeys(name for row in rows for name in row if name != "files"))
    lines = ["| files | " + " | ".join(f"{row['files']:,}" for row in rows) + " | exponent |",
             "|---|" + "---:|" * (len(rows) + 1)]
    for name in names:
        cells = [figure(name, row.get(name)) for row in rows]
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {exponent_text(rows, name)} |")
    return "\n".join(lines)


def figure(name, value):
    if value is None:
        return ""
    if name.startswith("bytes"):
        return f"{value:,.0f}"
    if name.startswith("puts a second"):
        return f"{value:,.0f}"
    return f"{value * 1000:,.1f} ms" if value < 1 else f"{value:,.2f} s"


def exponent(rows, name):
    """Of the last tenfold growth, if its figures are above what is noise."""
    last = rows[-1]
    before = [row for row in rows if row["files"] * 9 <= last["files"] and name in row]
    if not before or last.get(name, 0) < FLOOR or name.startswith(("puts", "bytes", "slowest beside", "held")):
        return None
    first = before[-1]
    return math.log(last[name] / max(first[name], FLOOR / 10)) / math.log(last["files"] / first["files"])


def exponent_text(rows, name):
    value = exponent(rows, name)
    return "" if value is None else f"{value:.2f}"


def main():
    parser = argparse.ArgumentParser()
    root = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--kist", default=os.environ.get("KIST", str(root / "target/release/kist")))
    parser.add_argument("--dir", default="kist-growth")
    parser.add_argument("--pool", default="/dev/shm/kist-growth" if os.path.isdir("/dev/shm") else "")
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--bytes", type=int, default=len(BODY), help="of each file")
    parser.add_argument("--held-up", type=float, default=0.1, help="seconds that bulk work may hold up a short call")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    globals()["BODY"] = (BODY * (arguments.bytes // len(BODY) + 1))[:arguments.bytes]
    directory = pathlib.Path(arguments.dir).resolve()
    pool = pathlib.Path(arguments.pool).resolve() if arguments.pool else None
    for path in filter(None, (directory, pool)):
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
    server = Server(arguments.kist, directory, pool)
    server.make()
    server.start()
    rows, there = [], 0
    try:
        for size in sizes_up_to(arguments.files):
            row = {"files": size, "puts a second": grow(server, there, size)}
            there = size
            row |= short_calls(server, size)
            row |= bulk(server, size)
            row |= restarts(server)
            stat = os.stat(os.path.join(server.instance, "catalogue", "data.mdb"))
            row["bytes of the catalogue a file"] = stat.st_blocks * 512 / size
            rows.append(row)
            print(f"{size:,} files measured", file=sys.stderr, flush=True)
        server.stop()
    finally:
        if server.process and server.process.poll() is None:
            server.process.kill()
    print(table(rows))
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(rows, indent=1))
    steep = [name for name in rows[-1] if name != "files" and (exponent(rows, name) or 0) > LINEAR]
    held = [f"{row['files']:,} files: {row['held up'] * 1000:.0f} ms" for row in rows
            if row["held up"] > arguments.held_up]
    for what, found in (("steeper than linear", steep), ("short calls held up", held)):
        if found:
            print(f"{what}: {', '.join(found)}")
    for path in filter(None, (directory, pool)):
        shutil.rmtree(path, ignore_errors=True)
    return 1 if steep or held else 0


if __name__ == "__main__":
    sys.exit(main())
