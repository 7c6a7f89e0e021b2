"""Loads the real server from outside: many connections with mixed verbs, then a healthy client beside ill-behaved ones.

    load.py KIST

Nothing may fail, the server's memory is bounded, the healthy client's p99 stays within twice what it is alone (or
below FLOOR, since a hundredth of the requests of a busy machine waits for its disk), and nothing is left behind.
Only the standard library is used.
"""

import asyncio
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
import urllib.request

CONNECTIONS = 1000
ACTIVE = 64
OPERATIONS = 4000
HEALTHY = 400
CRAWLERS = 200
STALLERS = 32
VANISHERS = 16
FLOOR = 0.150
RSS_MAX = 700 << 20
BODY = bytes(range(256)) * 64


class Failed(Exception):
    pass


class Server:
    """An instance and its server."""

    def __init__(self, kist):
        subprocess.run(
            [kist, "init", "data", "--demo", "--listen", "127.0.0.1:0", "--cartridges", "4",
             "--cartridge-size", "1GB", "--save-key", "key"], check=True, stdout=subprocess.DEVNULL)
        self.key = open("key").read().strip()
        self.process = subprocess.Popen(
            [kist, "serve", "data", "--log", "error"], stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().split()[-1]
        self.host, port = self.url.removeprefix("http://").split(":")
        self.port = int(port)

    def status(self, word):
        with open(f"/proc/{self.process.pid}/status") as file:
            for line in file:
                if line.startswith(word + ":"):
                    return int(line.split()[1]) << (10 if line.strip().endswith("kB") else 0)
        raise Failed(f"no {word}")

    def api(self, target):
        asked = urllib.request.Request(self.url + "/api/v1/" + target,
                                       headers={"Authorization": "Bearer " + self.key})
        with urllib.request.urlopen(asked, timeout=60) as reply:
            return json.load(reply)

    def connections(self):
        """Established connections of the server, by the kernel's table; the file's numbers are hexadecimal."""
        with open("/proc/net/tcp") as file:
            rows = [line.split() for line in list(file)[1:]]
        return sum(row[3] == "01" and int(row[1].split(":")[1], 16) == self.port for row in rows)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=120)


class Client:
    """One connection that stays open."""

    def __init__(self, server):
        self.server = server
        self.streams = None

    async def request(self, method, target, body=b"", headers=""):
        if self.streams is None:
            self.streams = await asyncio.open_connection(self.server.host, self.server.port)
        reader, writer = self.streams
        writer.write((f"{method} {target} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {self.server.key}\r\n"
                      f"{headers}Content-Length: {len(body)}\r\n\r\n").encode() + body)
        head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 120)).decode()
        status = int(head.split(" ", 2)[1])
        fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        length = 0 if method == "HEAD" or status in (204, 304) else int(fields.get("content-length", 0))
        content = await asyncio.wait_for(reader.readexactly(length), 120) if length else b""
        if fields.get("connection") == "close":
            self.close()
        return status, content

    def close(self):
        if self.streams is not None:
            self.streams[1].close()
            self.streams = None


async def operation(client, number, chance, name):
    """One request of a mix of verbs; anything but the expected answer is an error."""
    what = number % 8
    path = f"/data/{name}/{chance.randrange(200)}"
    if what == 0:
        expected, (status, _) = (200, 201), await client.request("PUT", path, BODY)
    elif what in (1, 2, 3):
        expected, (status, content) = (200,), await client.request("GET", f"/data/{name}/fixed")
        if content != BODY:
            raise Failed(f"{len(content)} other bytes")
    elif what == 4:
        expected = (206,)
        status, content = await client.request("GET", f"/data/{name}/fixed", headers="Range: bytes=100-199\r\n")
        if content != BODY[100:200]:
            raise Failed("another range")
    elif what == 5:
        expected, (status, _) = (200,), await client.request("HEAD", f"/data/{name}/fixed")
    elif what == 6:
        expected, (status, _) = (200,), await client.request("GET", f"/api/v1/list?path=/{name}&limit=100")
    else:
        expected, (status, _) = (204, 404), await client.request("DELETE", path)
    if status not in expected:
        raise Failed(f"operation {what} on {path}: {status}")


def p99(times):
    return sorted(times)[int(len(times) * 0.99)]


async def healthy(server, name):
    """The times of a client that does one thing after the other."""
    client, chance, times = Client(server), random.Random(7), []
    await client.request("PUT", f"/data/{name}/fixed", BODY)
    for number in range(HEALTHY):
        begun = time.monotonic()
        await operation(client, number, chance, name)
        times.append(time.monotonic() - begun)
    client.close()
    return times


async def crowd(server):
    """Opens all connections, then lets a few at a time work, each connection in its turn."""
    clients = [Client(server) for _ in range(CONNECTIONS)]
    await clients[0].request("PUT", "/data/crowd/fixed", BODY)
    for start in range(0, CONNECTIONS, 100):
        await asyncio.gather(*(client.request("GET", "/healthz") for client in clients[start:start + 100]))
    opened, turn, times, high = server.connections(), iter(range(OPERATIONS)), [], 0

    async def worker(seed):
        nonlocal high
        chance = random.Random(seed)
        for number in turn:
            begun = time.monotonic()
            await operation(clients[number % CONNECTIONS], number // 7, chance, "crowd")
            times.append(time.monotonic() - begun)
            high = max(high, server.status("VmRSS") if number % 50 == 0 else 0)

    begun = time.monotonic()
    await asyncio.gather(*(worker(seed) for seed in range(ACTIVE)))
    seconds = time.monotonic() - begun
    for client in clients:
        client.close()
    if opened < CONNECTIONS:
        raise Failed(f"only {opened} connections were open")
    return opened, len(times) / seconds, p99(times), high


async def crawler(server, begun):
    """Sends its header letter by letter."""
    while True:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        begun["crawlers"] += 1
        try:
            for letter in f"GET /data/ill/large HTTP/1.1\r\nHost: {'h' * 200}":
                writer.write(letter.encode())
                await writer.drain()
                await asyncio.sleep(0.2)
        except OSError:
            pass
        finally:
            writer.close()


async def staller(server, begun):
    """Asks for a large file and does not read it."""
    reader, writer = await asyncio.open_connection(server.host, server.port, limit=1024)
    writer.transport.pause_reading()
    writer.write(f"GET /data/ill/large HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {server.key}\r\n\r\n".encode())
    begun["stallers"] += 1
    try:
        await asyncio.Event().wait()
    finally:
        writer.transport.abort()


async def vanisher(server, begun):
    """Begins an upload and goes away in the middle of it."""
    while True:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        writer.write((f"PUT /data/ill/gone HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {server.key}\r\n"
                      f"Content-Length: {8 << 20}\r\n\r\n").encode() + bytes(1 << 19))
        try:
            await asyncio.wait_for(writer.drain(), 10)
        except (OSError, TimeoutError):
            pass
        writer.transport.abort()
        begun["vanishers"] += 1
        await asyncio.sleep(0.1)


async def until(what, true, seconds=60):
    """Waits for something that the server does by itself."""
    end = time.monotonic() + seconds
    while not await asyncio.to_thread(true):
        if time.monotonic() > end:
            raise Failed(f"{what}: not within {seconds} s")
        await asyncio.sleep(0.05)


async def main(server):
    alone = await healthy(server, "well")
    opened, rate, crowd_p99, high = await crowd(server)
    await until("the crowd's connections are closed", lambda: server.connections() == 0)
    client = Client(server)
    status, _ = await client.request("PUT", "/data/ill/large", BODY * 1024)
    client.close()
    if status != 201:
        raise Failed(f"the large file: {status}")
    await until("garbage is removed", lambda: server.api("pool")["garbage"] == 0)
    files = server.api("pool")["online_files"]
    begun = {"crawlers": 0, "stallers": 0, "vanishers": 0}
    ill = [asyncio.create_task(kind(server, begun)) for kind, count in
           ((crawler, CRAWLERS), (staller, STALLERS), (vanisher, VANISHERS)) for _ in range(count)]
    await until("they have begun", lambda: min(begun.values()) >= STALLERS)
    beside = await healthy(server, "well")
    high = max(high, server.status("VmHWM"))
    for task in ill:
        if task.done() and task.exception():
            raise task.exception()
        task.cancel()
    await asyncio.gather(*ill, return_exceptions=True)
    await until("their connections are closed", lambda: server.connections() == 0)
    await until("what they left is removed", lambda: server.api("pool")["garbage"] == 0)
    left = server.api("pool")["online_files"]
    names = [entry["name"] for entry in server.api("list?path=/ill")["entries"]]
    print(f"load: {opened} connections, {ACTIVE} active, {OPERATIONS} operations, no error: {rate:.0f} a second, p99 "
          f"{crowd_p99 * 1e3:.1f} ms; beside {CRAWLERS} crawlers, {STALLERS} stallers and {begun['vanishers']} vanished "
          f"uploads a healthy client's p99 is {p99(beside) * 1e3:.1f} ms, alone {p99(alone) * 1e3:.1f} ms; "
          f"at most {high >> 20} MiB resident", flush=True)
    # The healthy client may have removed or added some of its own.
    if names != ["large"] or abs(left - files) > 200:
        raise Failed(f"left behind: {names}, {files} files before, {left} after")
    if p99(beside) > max(2 * p99(alone), FLOOR):
        raise Failed("the healthy client suffers")
    if high > RSS_MAX:
        raise Failed(f"{high >> 20} MiB are more than {RSS_MAX >> 20}")


def run():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard < 2 * CONNECTIONS + 500:
        raise Failed(f"{hard} descriptors are too few: raise the hard limit with ulimit -n")
    server = Server(os.path.abspath(sys.argv[1]))
    try:
        asyncio.run(main(server))
    except BaseException:
        server.process.kill()
        raise
    if server.stop() != 0:
        raise Failed("the server did not stop cleanly")


if __name__ == "__main__":
    run()
