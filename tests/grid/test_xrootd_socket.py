"""What an attacker, or a plugin that has gone mad, can send to Kist's socket: nothing of it may do more than end its own
connection."""

import os
import pwd
import random
import socket
import struct
import time

from world import IS_ROOT, XROOTD_USER, Place, equal, random_bytes, until

MAGIC = int.from_bytes(b"kist-xrd", "little")
HELLO, STAT, LIST, OPEN, READ, READ_VECTOR, CREATE, WRITE, FINISH, CLOSE = range(1, 11)
STAGE, CANCEL, QUERY, EVICT, SPACE = range(15, 20)
ANSWER, REFUSED = 0x4000, 0x7FFF
IO_MAX = 2 << 20


def connect(place, user=XROOTD_USER):
    """A connection that the kernel says is of this user."""
    if not IS_ROOT:
        plain = socket.socket(socket.AF_UNIX)
        plain.connect(str(place.kist.socket))
        return plain
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    child = os.fork()
    if child == 0:
        try:
            entry = pwd.getpwnam(user)
            os.setgroups([])
            os.setgid(pwd.getpwnam(XROOTD_USER).pw_gid)
            os.setuid(entry.pw_uid)
            made = socket.socket(socket.AF_UNIX)
            made.connect(str(place.kist.socket))
            socket.send_fds(theirs, [b"x"], [made.fileno()])
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    theirs.close()
    _, fds, _, _ = socket.recv_fds(ours, 1, 1)
    ours.close()
    connection = socket.socket(fileno=fds[0])
    connection.settimeout(40)
    return connection


def frame(tag, body=b"", number=1, length=None, reserved=0):
    """A frame."""
    return struct.pack("<IHHQ", len(body) if length is None else length, tag, reserved, number) + body


def text(of):
    """A text in a frame."""
    of = of.encode() if isinstance(of, str) else of
    return struct.pack("<H", len(of)) + of


def asker(protocol="sss", name="nobody", groups="", subject="", token="", address=""):
    """Who asks."""
    return b"".join(map(text, (protocol, name, "", "", groups, subject, address, token)))


def exactly(connection, count):
    """So many bytes, or fewer at the end."""
    got = b""
    while len(got) < count and (more := connection.recv(count - len(got))):
        got += more
    return got


def answer(connection):
    """An answer as tag, number and body; `None` if the connection was closed."""
    try:
        header = exactly(connection, 16)
    except ConnectionResetError:
        return None
    if len(header) < 16:
        return None
    length, tag, _, number = struct.unpack("<IHHQ", header)
    return tag, number, exactly(connection, length)


def hello(place):
    """A connection that was greeted."""
    connection = connect(place)
    connection.sendall(frame(HELLO, struct.pack("<QH", MAGIC, 1)))
    tag, number, body = answer(connection)
    equal((tag, number, struct.unpack("<QHII", body)[:3]), (HELLO | ANSWER, 1, (MAGIC, 1, IO_MAX)), "the greeting")
    return connection


def ask(connection, tag, body, number=7):
    """Asks; gives the errno of a refusal, or the body."""
    connection.sendall(frame(tag, body, number))
    found = answer(connection)
    if not found:
        return None
    equal(found[1], number, "the number of the answer")
    return struct.unpack_from("<H", found[2])[0] if found[0] == REFUSED else found[2]


def ends(place, *pieces):
    """Demands that a connection ends once it has sent this, at the latest with what is refused."""
    connection = hello(place)
    try:
        for piece in pieces:
            connection.sendall(piece)
        connection.shutdown(socket.SHUT_WR)
    except (BrokenPipeError, ConnectionResetError):
        pass
    while answer(connection):
        pass
    connection.close()


def works(place):
    """Demands that others are served."""
    connection = hello(place)
    equal(len(ask(connection, STAT, asker() + text("/open"))), 38, "a stat")
    connection.close()


def test_only_the_user_of_xrootd_is_spoken_to(place):
    if not IS_ROOT:
        return
    mode = place.kist.socket.stat()
    equal((oct(mode.st_mode & 0o777), mode.st_gid), ("0o660", pwd.getpwnam(XROOTD_USER).pw_gid), "the socket")
    for user in ("daemon", "root"):
        connection = connect(place, user)
        try:
            connection.sendall(frame(HELLO, struct.pack("<QH", MAGIC, 1)))
            # A forged identity from a wrong user.
            connection.sendall(frame(STAT, asker(name="admin") + text("/open")))
        except (BrokenPipeError, ConnectionResetError):
            pass
        equal(answer(connection), None, f"nothing is said to {user}")
    equal("not the user of [xrootd] user" in place.kist.log.read_text(), True, "it is logged")


def test_a_connection_begins_with_hello(place):
    for first in [
        frame(STAT, asker() + text("/open")),
        frame(HELLO, struct.pack("<QH", MAGIC + 1, 1)),
        frame(HELLO, struct.pack("<Q", MAGIC)),
        frame(HELLO, b"x" * 300),
        b"GET / HTTP/1.1\r\nHost: kist\r\n\r\n",
        b"\0" * 16,
        b"\xff" * 64,
    ]:
        connection = connect(place)
        connection.sendall(first)
        equal(answer(connection), None, first[:20])
    connection = connect(place)
    connection.sendall(frame(HELLO, struct.pack("<QH", MAGIC, 2)))
    tag, _, body = answer(connection)
    equal((tag, struct.unpack_from("<H", body)[0], b"version 2" in body), (REFUSED, 93, True), "another version")
    equal(answer(connection), None, "and that is the end")
    connection = hello(place)
    equal(ask(connection, HELLO, struct.pack("<QH", MAGIC, 1)), 71, "HELLO twice")
    works(place)


def test_frames_that_cannot_be_understood(place):
    stat = asker() + text("/open")
    bad = [
        [frame(0)], [frame(20)], [frame(STAT | ANSWER, stat)], [frame(REFUSED)], [frame(65535)],
        [frame(STAT, stat, reserved=1)],
        [frame(STAT, stat, length=len(stat) + 5)],
        [frame(STAT, stat[:-1])], [frame(STAT, stat + b"x")], [frame(STAT)],
        [frame(STAT, b"", length=0xFFFFFFFF)], [frame(STAT, b"", length=IO_MAX + (64 << 10) + 1)],
        [frame(STAT, b"", length=IO_MAX + (64 << 10))],
        [frame(STAT, asker() + text(b"\xff\xfe"))], [frame(STAT, asker() + text(b"/a\0b"))],
        [frame(STAT, asker() + text("/" + "a" * 4096))],
        [frame(STAT, asker(token="t" * 16385) + text("/open"))],
        [frame(STAT, asker(protocol="p" * 17) + text("/open"))],
        [frame(LIST, asker() + text("/open") + text("") + struct.pack("<I", 1001))],
        [frame(READ, struct.pack("<QI", 0, IO_MAX + 1))],
        [frame(READ_VECTOR, struct.pack("<H", 1025) + b"\0" * 12 * 1025)],
        [frame(READ_VECTOR, struct.pack("<H", 2) + struct.pack("<QI", 0, IO_MAX) * 2)],
        [frame(READ_VECTOR, struct.pack("<H", 100))],
        [frame(WRITE, b"\0" * 7)], [frame(WRITE, b"\0" * (8 + IO_MAX + 1))],
        [frame(CREATE, asker() + text("/open/x") + struct.pack("<HHIQ", 2, 0, 0, 0))],
        [frame(CREATE, asker() + text("/open/x") + struct.pack("<HHIQ", 0, 0, 0o10000, 0))],
        [frame(EVICT, asker() + struct.pack("<H", 10001) + text("/a") * 10001)],
        [frame(STAGE, asker() + struct.pack("<IH", 4, 0))],
        [frame(CANCEL, asker() + text("9" * 65))],
        [b"x"], [b"x" * 15], [frame(STAT, stat)[:20]], [frame(STAT, stat), frame(STAT, stat)[:17]],
    ]
    for pieces in bad:
        ends(place, *pieces)
    works(place)
    chance = random.Random(21)
    for _ in range(300):
        tag = chance.choice([*range(0, 22), 65535])
        body = bytearray(chance.choice([stat, asker() + text("/open/f") * 2 + b"\0" * 20, chance.randbytes(chance.randrange(200))]))
        for _ in range(chance.randrange(4)):
            if body:
                body[chance.randrange(len(body))] = chance.randrange(256)
        # Nothing that would change something is sent by chance.
        if tag not in range(11, 19):
            ends(place, frame(tag, bytes(body), chance.getrandbits(64)))
    works(place)


def test_calls_in_the_wrong_order(place):
    connection = hello(place)
    equal(ask(connection, READ, struct.pack("<QI", 0, 10)), 9, "a read of nothing")
    equal(ask(connection, FINISH, b""), 9, "the end of nothing")
    equal(ask(connection, CLOSE, b""), b"", "a close of nothing")
    create = asker() + text("/open/order-1") + struct.pack("<HHIQ", 0, 0, 0o644, 2**64 - 1)
    equal(ask(connection, CREATE, create), b"", "a new file")
    equal(ask(connection, CREATE, create), 16, "another one in the same connection")
    equal(ask(connection, OPEN, asker() + text("/open")), 16, "an open in the same connection")
    equal(ask(connection, READ, struct.pack("<QI", 0, 10)), 9, "a read of a new file")
    connection.close()
    equal(place.kist.stat("/open/order-1"), {}, "nothing is kept")
    connection = hello(place)
    equal(ask(connection, OPEN, asker() + text("/open")), 21, "an open of a directory")
    equal(ask(connection, OPEN, asker() + text("/open/none")), 2, "an open of nothing")
    equal(ask(connection, OPEN, asker() + text("/../etc/passwd")), 22, "a path that is none")
    equal(ask(connection, STAT, asker() + text("relative/./path")), 22, "another one")
    equal(ask(connection, STAT, asker(token="nonsense") + text("/open")), 13, "a bad token")
    equal(ask(connection, STAT, asker(name="") + text("/open")), 13, "no name")
    equal(ask(connection, STAT, asker(protocol="gsi", subject="/CN=x") + text("/open")), 13, "an unknown subject")
    equal(len(ask(connection, STAT, asker(protocol="unix", name="root") + text("/open"))), 38, "nobody in particular")
    equal(ask(connection, STAT, asker(protocol="unix", name="root") + text("/keys")), 13, "who may little")
    connection.close()


def test_a_new_file_is_kept_once_it_is_finished(place):
    def create(name, size=2**64 - 1, exclusive=0):
        connection = hello(place)
        body = asker() + text(f"/open/{name}") + struct.pack("<HHIQ", exclusive, 0, 0o644, size)
        equal(ask(connection, CREATE, body), b"", "a new file")
        return connection

    def write(connection, offset, data, number=3):
        connection.sendall(frame(WRITE, struct.pack("<Q", offset) + data, number))

    connection = create("whole")
    write(connection, 3, b"def")
    write(connection, 0, b"abc")
    body = ask(connection, FINISH, b"")
    equal(struct.unpack("<QQII", body)[1], 6, "its size")
    equal(place.kist.stat("/open/whole")["size"], 6, "kept")
    connection.close()
    for name, size, pieces in [
        ("short", 7, [(0, b"abc")]), ("more", 2, [(0, b"abc")]), ("hole", 2**64 - 1, [(0, b"abc"), (4, b"e")]),
        ("twice", 2**64 - 1, [(0, b"abc"), (1, b"b")]), ("far", 2**64 - 1, [(2**64 - 2, b"abc")]), ("nothing", 5, []),
    ]:
        connection = create(name, size)
        for offset, data in pieces:
            write(connection, offset, data)
        connection.sendall(frame(FINISH, b"", 9))
        found = []
        while not found or found[-1][1] != 9:
            found.append(answer(connection))
        equal({one[0] for one in found}, {REFUSED}, name)
        equal(place.kist.stat(f"/open/{name}"), {}, f"nothing is kept of {name}")
        connection.close()
    # More than the window holds.
    connection = create("window")
    for number in range(17):
        write(connection, 1 + number * IO_MAX, b"w" * IO_MAX, number)
    tag, number, body = answer(connection)
    equal((tag, number, struct.unpack_from("<H", body)[0]), (REFUSED, 16, 95), "the window is full")
    connection.close()
    # Small pieces cost more memory than they have bytes.
    connection = create("small-pieces")
    many = b"".join(frame(WRITE, struct.pack("<Q", 1 + 2 * number) + b"x", number) for number in range(140_000))
    connection.sendall(many)
    tag, number, body = answer(connection)
    equal((tag, number, struct.unpack_from("<H", body)[0]), (REFUSED, (32 << 20) // 256, 95), "the window is full of them")
    connection.close()
    # One that is broken off.
    connection = create("broken-off")
    write(connection, 0, b"h" * 1_000_000)
    connection.close()
    time.sleep(0.2)
    equal(place.kist.stat("/open/broken-off"), {}, "nothing is kept")


def test_a_file_that_is_replaced_while_it_is_open(place):
    data = random_bytes(3_000_000, 2)
    place.kist.put("/open/replaced", data)
    connection = hello(place)
    body = ask(connection, OPEN, asker() + text("/open/replaced"))
    equal(struct.unpack_from("<Q", body, 6)[0], len(data), "its size")
    equal(ask(connection, READ, struct.pack("<QI", 0, 1000)) == data[:1000], True, "its bytes")
    place.kist.put("/open/other", b"other bytes")
    place.kist.command("rm", "/open/replaced").exits()
    place.kist.put("/open/replaced", random_bytes(3_000_000, 3))
    equal(ask(connection, READ, struct.pack("<QI", 2_000_000, 1000)), 116, "a jump finds another file")
    connection.close()


@getattr(__import__("test_xrootd"), "long")
def test_idle_files_and_connections_hold_nothing():
    with Place() as place:
        data = random_bytes(8_000_000, 2)
        place.kist.put("/open/idle", data)
        idle = []
        for _ in range(150):
            connection = hello(place)
            ask(connection, OPEN, asker() + text("/open/idle"))
            equal(ask(connection, READ, struct.pack("<QI", 0, 1000)) == data[:1000], True, "a first read")
            idle.append(connection)
        # More than there are places for transfers are open, and others are served.
        place.xrdcp(place.url("/open/idle"), place.at / "back").exits()
        time.sleep(6)
        # What is removed is garbage that no idle reader holds up.
        place.kist.command("rm", "/open/idle").exits()
        equal(ask(idle[0], READ, struct.pack("<QI", 1000, 1000)), 2, "it is gone for who reads on")
        for connection in idle:
            connection.close()
        stalled = [connect(place) for _ in range(50)]
        half = hello(place)
        half.sendall(frame(STAT, b"", length=100))
        works(place)
        began = time.monotonic()
        equal(answer(half), None, "half a frame is not waited for for ever")
        equal(20 < time.monotonic() - began < 40, True, "but for its time")
        for connection in stalled:
            connection.close()


@getattr(__import__("test_xrootd"), "long")
def test_connections_have_a_limit():
    with Place() as place:
        kept = []
        while len(kept) < 2000 and greeted(place, kept):
            pass
        equal(len(kept), 1280, "connections")
        for connection in kept[:100]:
            connection.close()
        until("they are taken again", lambda: greeted(place, []), 20)
        place.kist.stop()
        equal(answer(kept[-1]), None, "a stop ends them")
        place.kist.start()
        works(place)


def greeted(place, kept):
    """Whether another connection is taken."""
    connection = connect(place)
    try:
        connection.sendall(frame(HELLO, struct.pack("<QH", MAGIC, 1)))
        found = answer(connection)
    except (BrokenPipeError, ConnectionResetError):
        found = None
    if found:
        kept.append(connection)
    return found is not None


