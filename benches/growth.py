#!/usr/bin/env python3
"""Grows one instance and measures at each size what must not grow: curves over the number of files.

    benches/growth.py [--kist PROGRAM] [--loader PROGRAM] [--dir DIRECTORY] [--pool DIRECTORY] [--bytes 1024]
                      [--untaped] [--files 1000000 | --sizes N,N,...] [--json FILE]

Small files come in by --loader (`cargo build --release -p kist --example small_puts`), a thousand to a directory.
At each size (10,000 and each three and ten times as much, up to --files) short calls are timed alone, then bulk work
is done with puts, stats and syncs of the disk beside it, then the server is stopped, started, restored from its
backup and started again. The catalogue and its backup lie in DIRECTORY, the pool's drives in --pool (memory, if
there is some; "" for DIRECTORY). The table is printed, and FILE written, after each size. Exits with 1 if something
grows steeper than with the number of files, if bulk work holds up a put or a stat for longer than --held-up, or a
hundredth of the puts for longer than --held-up-p99. Only the standard library is used.

What else runs on the machine is in the figures of the calls: begin this with `nice -n -20`, or `chrt -r 1` where
the machine is not quiet.
"""

import argparse
import http.client
import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

CONNECTIONS = 128
PER_DIRECTORY = 1_000
SAMPLES = 300
# A short call and a sync of the disk beside bulk work, each so often.
BESIDE_EVERY = 0.003
SYNC_EVERY = 0.01
# Calls over many files at once, and for how long.
STORMS = (16, 56, 90)
STORM_SECONDS = 6
# A figure below this many seconds is not judged: noise is larger than it.
FLOOR = 0.05
# The exponent of a curve over the number of files that counts as linear, with what measuring adds.
LINEAR = 1.2
# What is timed beside bulk work, and told of each kind of it.
BESIDE = ("put p50", "put p99", "slowest put", "slowest stat", "sync p99", "slowest sync")


class Server:
    def __init__(self, arguments, directory, pool):
        self.kist, self.loader, self.bytes = arguments.kist, arguments.loader, arguments.bytes
        self.untaped = arguments.untaped
        self.directory, self.pool = directory, pool
        self.instance, self.backup, self.key_file = (str(directory / name) for name in ("data", "backup", "key"))
        self.process = None

    def make(self):
        self.run("init", self.instance, "--demo", "--listen", "127.0.0.1:0", "--cartridges", "4",
                 "--cartridge-size", "100GB" if self.untaped else "1GB", "--save-key", self.key_file)
        self.key = pathlib.Path(self.key_file).read_text().strip()
        if self.pool:
            here = pathlib.Path(self.instance) / "pool"
            for drive in sorted(here.iterdir()):
                there = self.pool / drive.name
                shutil.move(drive, there)
                drive.symlink_to(there)
        os.makedirs(self.backup, exist_ok=True)
        config = pathlib.Path(self.instance) / "kist.toml"
        text = config.read_text()
        if self.untaped:
            for name, value in (("pack_age", "30d"), ("pack", "64GiB")):
                text = re.sub(f'^{name} = ".*"', f'{name} = "{value}"', text, flags=re.MULTILINE)
        config.write_text(text + f'\n[backup]\ndirectory = "{self.backup}"\nship_every = "1s"\n')

    def run(self, *arguments, program=None):
        done = subprocess.run([program or self.kist, *arguments], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{program or 'kist'} {' '.join(arguments)}: {done.returncode}\n{done.stderr}")
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

    def ask(self, method, target, body=None, expected=(200, 201, 202, 204), **headers):
        return self.reply(method, target, body, expected, **headers)[1]

    def reply(self, method, target, body=None, expected=(200, 201, 202, 204), **headers):
        self.http.request(method, target, body, self.headers | headers)
        reply = self.http.getresponse()
        content = reply.read()
        if reply.status not in expected:
            raise SystemExit(f"{method} {target}: {reply.status} {content[:300]!r}")
        return reply.status, content

    def timed(self, method, target, body=None):
        begin = time.monotonic()
        self.ask(method, target, body)
        return time.monotonic() - begin

    def work(self, target, body):
        """A call over many files, to its end; what it answers, or None where the server has no place for it."""
        headers = {"Content-Type": "application/json", "Prefer": "respond-async"}
        status, content = self.reply("POST", target, json.dumps(body), (200, 201, 202, 204, 503), **headers)
        answer = json.loads(content) if content else {}
        while status == 202 and answer["state"] == "running":
            time.sleep(0.02)
            answer = json.loads(self.ask("GET", f"/api/v1/works/{answer['id']}"))
        if status == 503:
            return None
        if status == 202 and answer["state"] != "done":
            raise SystemExit(f"{target}: {answer}")
        return (answer.get("reply") or {}) if status == 202 else answer


def path_of(number, tree="g"):
    directory = number // PER_DIRECTORY
    return f"/{tree}/{directory // 100}/{directory % 100}/f{number % PER_DIRECTORY}"


def grow(server, begin, end, tree="g"):
    """Puts files; gives how many a second."""
    numbers = [str(number) for number in (begin, end, server.bytes, CONNECTIONS)]
    seconds = server.run(server.address, server.key_file, tree, *numbers, program=server.loader)
    return (end - begin) / float(seconds)


class Beside:
    """A put, a stat and a sync of the disk every few milliseconds, beside what is done in the block."""

    def __init__(self, server, size):
        self.server, self.size = server, size
        self.over, self.errors = threading.Event(), []
        self.times = {"put": [], "stat": [], "sync": []}
        self.threads = [threading.Thread(target=self.guard, args=(work,))
                        for work in (self.puts, self.stats, self.syncs)]

    def guard(self, work):
        try:
            work()
        except BaseException as error:
            self.errors.append(error)

    def puts(self):
        connection, number, body = Connection(self.server), 0, bytes(self.server.bytes)
        while not self.over.is_set():
            path = f"/data/beside/{self.size}-{number % 100}"
            self.times["put"].append(connection.timed("PUT", path, body))
            number += 1
            time.sleep(BESIDE_EVERY)

    def stats(self):
        connection, number = Connection(self.server), 0
        while not self.over.is_set():
            target = "/api/v1/stat?path=" + path_of(number * 7919 % self.size)
            self.times["stat"].append(connection.timed("GET", target))
            number += 1
            time.sleep(BESIDE_EVERY)

    def syncs(self):
        """What the disk itself takes: nothing that is made durable can be faster."""
        path = self.server.directory / "synced"
        file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_APPEND, 0o600)
        while not self.over.is_set():
            begin = time.monotonic()
            os.write(file, bytes(4096))
            os.fdatasync(file)
            self.times["sync"].append(time.monotonic() - begin)
            time.sleep(SYNC_EVERY)
        os.close(file)
        path.unlink()

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()
        for error in self.errors:
            raise error

    def figures(self, name):
        put, stat, sync = (self.times[which] for which in ("put", "stat", "sync"))
        return {f"put p50 beside {name}": quantile(put, 0.5), f"put p99 beside {name}": quantile(put, 0.99),
                f"slowest put beside {name}": max(put), f"slowest stat beside {name}": max(stat),
                f"sync p99 beside {name}": quantile(sync, 0.99), f"slowest sync beside {name}": max(sync)}


def quantile(times, share):
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


def short_calls(server, size):
    connection, body = Connection(server), bytes(server.bytes)
    puts = [connection.timed("PUT", f"/data/alone/{size}-{n}", body) for n in range(SAMPLES)]
    stats = [connection.timed("GET", "/api/v1/stat?path=" + path_of(n * 7919 % size)) for n in range(SAMPLES)]
    lists = [connection.timed("GET", "/api/v1/list?limit=1000&path=" + os.path.dirname(path_of(n * 104729 % size)))
             for n in range(20)]
    looks = [connection.timed("GET", "/api/v1/" + target) for target in ("status", "pool", "queue", "requests")]
    return {"put p50": quantile(puts, 0.5), "put p99": quantile(puts, 0.99), "stat p50": quantile(stats, 0.5),
            "list 1,000 p50": quantile(lists, 0.5), "slowest screen": max(looks)}


def bulk(server, size):
    """Each kind of work over many files."""
    figures = {}
    grow(server, 0, size // 10, f"t{size}")

    def work(name, do):
        with Beside(server, size) as beside:
            begin = time.monotonic()
            out = do()
            figures[name] = time.monotonic() - begin
        figures.update(beside.figures(name))
        return out

    request = json.loads(work("stage", lambda: server.client("stage", "--json", "/g")))
    work("release", lambda: server.client("release", str(request["id"])))
    # What no tape has yet is refused, which the client calls a failure.
    select = {"paths": ["/g"], "recursive": True}
    work("evict", lambda: Connection(server).work("/api/v1/evict", select))
    work("rm -r of a tenth, to its end", lambda: server.client("rm", "-r", f"/t{size}"))
    for calls in STORMS:
        with Beside(server, size) as beside:
            figures[f"calls of {calls} at once, a second"] = storm(server, size, calls)
        figures.update(beside.figures(f"{calls} bulk calls at once"))
    return figures


def storm(server, size, connections):
    """Many clients at once stage a directory, release it and evict it, again and again; how many calls a second.
    In a process of its own, so that one interpreter does not serve these and what is timed beside them."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        until, ended = time.monotonic() + STORM_SECONDS, []

        def client(number):
            connection, directory = Connection(server), number
            while time.monotonic() < until:
                path = os.path.dirname(path_of(directory * PER_DIRECTORY % size))
                select = {"paths": [path], "recursive": True}
                staged = connection.work("/api/v1/requests", select)
                if staged:
                    connection.work(f"/api/v1/requests/{staged['id']}/release", {})
                connection.work("/api/v1/evict", select)
                directory += connections
                ended.append(3)

        threads = [threading.Thread(target=client, args=(number,)) for number in range(connections)]
        begin = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        os.write(writer, f"{sum(ended) / (time.monotonic() - begin)}".encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    return float(told)


def restarts(server, size):
    figures = {"stop": server.stop(), "start": server.start()}
    with Beside(server, size) as beside:
        begin = time.monotonic()
        server.client("backup", "now")
        figures["snapshot"] = time.monotonic() - begin
    figures.update(beside.figures("snapshot"))
    server.stop()
    begin = time.monotonic()
    server.run("restore", "--quiet", "--from", server.backup, "--move-aside", server.instance)
    figures["restore"] = time.monotonic() - begin
    figures["first start after it"] = server.start()
    with Beside(server, size) as beside:
        begin, connection = time.monotonic(), Connection(server)
        while (json.loads(connection.ask("GET", "/api/v1/status")).get("settling") or {}).get("stage") not in (
                None, "settled", "unsettled"):
            time.sleep(0.01)
        figures["settled behind it"] = time.monotonic() - begin
    figures.update(beside.figures("settling"))
    for aside in pathlib.Path(server.instance).glob("catalogue.before*"):
        shutil.rmtree(aside)
    return figures


def sizes_of(arguments):
    if arguments.sizes:
        return sorted(int(size) for size in arguments.sizes.split(","))
    sizes = [10_000 * 10 ** power * factor for power in range(5) for factor in (1, 3)]
    return [size for size in sizes if size < arguments.files] + [arguments.files]


def table(rows):
    """Curves over the number of files, and beside which work short calls waited for how long."""
    names = list(dict.fromkeys(name for row in rows for name in row if name != "files" and " beside " not in name))
    lines = ["| files | " + " | ".join(f"{row['files']:,}" for row in rows) + " | exponent |",
             "|---|" + "---:|" * (len(rows) + 1)]
    for name in names:
        cells = [figure(name, row.get(name)) for row in rows]
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {exponent_text(rows, name)} |")
    lines += ["", "| files | beside | " + " | ".join(BESIDE) + " |", "|---:|---|" + "---:|" * len(BESIDE)]
    for row in rows:
        works = dict.fromkeys(name.split(" beside ")[1] for name in row if " beside " in name)
        lines += [f"| {row['files']:,} | {work} | "
                  + " | ".join(figure(what, row[f"{what} beside {work}"]) for what in BESIDE) + " |" for work in works]
    return "\n".join(lines)


def figure(name, value):
    if value is None:
        return ""
    if name.startswith(("bytes", "puts a second", "calls")):
        return f"{value:,.0f}"
    return f"{value * 1000:,.1f} ms" if value < 1 else f"{value:,.2f} s"


def exponent(rows, name):
    """Of the last tenfold growth, if its figures are above what is noise."""
    last = rows[-1]
    before = [row for row in rows if row["files"] * 9 <= last["files"] and name in row]
    is_time = " beside " not in name and not name.startswith(("files", "puts a second", "bytes", "calls"))
    if not before or not is_time or last.get(name, 0) < FLOOR:
        return None
    first = before[-1]
    return math.log(last[name] / max(first[name], FLOOR / 10)) / math.log(last["files"] / first["files"])


def exponent_text(rows, name):
    value = exponent(rows, name)
    return "" if value is None else f"{value:.2f}"


def failures(rows, arguments):
    """What misses a bar, in lines."""
    steep = [name for name in rows[-1] if (exponent(rows, name) or 0) > LINEAR]
    lines = [f"steeper than linear: {', '.join(steep)}"] if steep else []
    for begin, most in (("slowest put", arguments.held_up), ("slowest stat", arguments.held_up),
                        ("put p99 beside", arguments.held_up_p99)):
        lines += [f"{name}, {row['files']:,} files: {value * 1000:.0f} ms; "
                  f"the disk's sync then: {row[sync_of(name)] * 1000:.0f} ms"
                  for row in rows for name, value in row.items() if name.startswith(begin) and value > most]
    return lines


def sync_of(name):
    return name.replace("put", "sync").replace("stat", "sync")


def measured(server, size, there):
    row = {"files": size, "puts a second": grow(server, there, size)}
    row |= short_calls(server, size)
    row |= bulk(server, size)
    row |= restarts(server, size)
    stat = os.stat(os.path.join(server.instance, "catalogue", "data.mdb"))
    row["bytes of the catalogue a file"] = stat.st_blocks * 512 / size
    return row


def parse():
    parser = argparse.ArgumentParser()
    release = pathlib.Path(__file__).resolve().parent.parent / "target/release"
    parser.add_argument("--kist", default=os.environ.get("KIST", str(release / "kist")))
    parser.add_argument("--loader", default=str(release / "examples/small_puts"))
    parser.add_argument("--dir", default="kist-growth")
    parser.add_argument("--pool", default="/dev/shm/kist-growth" if os.path.isdir("/dev/shm") else "")
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--sizes", help="instead of all up to --files: 10000,1000000,10000000")
    parser.add_argument("--bytes", type=int, default=1024, help="of each file")
    parser.add_argument("--untaped", action="store_true", help="nothing is packed for tape: all stays in the pool")
    parser.add_argument("--held-up", type=float, default=0.1, help="seconds that bulk work may hold up a short call")
    parser.add_argument("--held-up-p99", type=float, default=0.02, help="seconds that 99 of 100 puts may take beside it")
    parser.add_argument("--json")
    return parser.parse_args()


def main():
    arguments = parse()
    directory = pathlib.Path(arguments.dir).resolve()
    pool = pathlib.Path(arguments.pool).resolve() if arguments.pool else None
    for path in filter(None, (directory, pool)):
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
    server = Server(arguments, directory, pool)
    server.make()
    server.start()
    rows, there = [], 0
    try:
        for size in sizes_of(arguments):
            begin = time.monotonic()
            rows.append(measured(server, size, there))
            there = size
            print(f"{size:,} files measured in {time.monotonic() - begin:.0f} s\n{table(rows)}", flush=True)
            if arguments.json:
                pathlib.Path(arguments.json).write_text(json.dumps(rows, indent=1))
        server.stop()
    finally:
        if server.process and server.process.poll() is None:
            server.process.kill()
    missed = failures(rows, arguments)
    print("\n".join(missed))
    for path in filter(None, (directory, pool)):
        shutil.rmtree(path, ignore_errors=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
