"""The machine of tests/disks: disks of scsi_debug on two hosts each, maps over their paths, a layer on each map that can be made bad,
file systems, and a server that keeps files on them under load."""

import glob
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import threading
import time

from checking import HERE, SCRATCH, expect, run

DEBUG = "/sys/bus/pseudo/drivers/scsi_debug/"
KEPT = os.path.join(SCRATCH, "keep.log")
KIST = os.path.join(HERE, "kist")
INSTANCE = os.path.join(SCRATCH, "instance")
DISKS = 12
DATA, PARITY = 6, 3
# The disk of which some blocks cannot be read.
OTHER_LAYOUT = 2
# A target of scsi_debug for each disk: its name in the world and its serial number come of it. 7 is the host's own.
FIRST_TARGET = 8


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def read(path):
    with open(path) as file:
        return file.read().strip()


def until(what, seconds, look, every=0.25):
    """Waits until `look` gives something true, and gives it."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        expect(time.monotonic() < deadline, f"after {seconds} s still not: {what}")
        time.sleep(every)


def dm(*command, **more):
    return run("dmsetup", *command, **more)


class Disk:
    """One disk, however it is reached."""

    def __init__(self, number):
        self.number = number
        self.target = FIRST_TARGET + number
        self.hosts = []
        # What the store of scsi_debug is: two hosts each, in the order in which they were made.
        self.layer = None

    @property
    def serial(self):
        return str(2000 + self.target * 1000)

    def paths(self):
        """Block devices that lead to it now."""
        found = []
        for host in self.hosts:
            found += glob.glob(f"/sys/class/scsi_disk/{host}:0:{self.target}:0/device/block/*")
        return ["/dev/" + os.path.basename(one) for one in found]

    def path_of(self, host):
        return next(path for path in self.paths()
                    if os.path.exists(f"/sys/class/scsi_disk/{host}:0:{self.target}:0/device/block/{os.path.basename(path)}"))

    def plug(self, is_new):
        """Two new hosts lead to it: to a new store, or to that of the disk that was plugged in last."""
        for store in ["1" if is_new else "0", "0"]:
            write(DEBUG + "per_host_store", store)
            write(DEBUG + "add_host", "1")
        self.hosts = sorted(int(name[4:]) for name in os.listdir("/sys/class/scsi_host"))[-2:]
        for host in self.hosts:
            self.find(host)
        until(f"two paths to disk {self.number}", 10, lambda: len(self.paths()) == 2, 0.02)

    def find(self, host):
        write(f"/sys/class/scsi_host/host{host}/scan", f"0 {self.target} 0")

    def lose(self, host):
        """The cable is pulled: the path is gone, with all that is under way on it."""
        write(f"/sys/class/scsi_device/{host}:0:{self.target}:0/device/delete", "1")

    @property
    def device(self):
        """What the file system stands on."""
        return f"/dev/mapper/{self.layer}"

    def sectors(self):
        return int(run("blockdev", "--getsz", self.device))


class Enclosure:
    """An enclosure with a slot for each disk, as the kernel's driver shows it in /sys/class/enclosure: scsi_debug gives a device of that
    type and no pages of it. What stands in /sys/class beside it is the kernel's own."""

    IDENTIFIER = "5000ccab04001000"
    TARGET = 6

    def __init__(self, host):
        write(DEBUG + "ptype", "13")
        write(f"/sys/class/scsi_host/host{host}/scan", f"0 {self.TARGET} 0")
        write(DEBUG + "ptype", "0")
        classes = os.path.join(SCRATCH, "class")
        os.mkdir(classes)
        run("mount", "-t", "tmpfs", "classes", classes)
        for name in os.listdir("/sys/class"):
            os.mkdir(os.path.join(classes, name))
            run("mount", "--bind", f"/sys/class/{name}", os.path.join(classes, name))
        self.directory = f"/sys/class/enclosure/{host}:0:{self.TARGET}:0"
        os.makedirs(classes + self.directory.removeprefix("/sys/class"))
        run("mount", "--rbind", classes, "/sys/class")
        write(self.directory + "/id", f"0x{self.IDENTIFIER}\n")

    def slot(self, number):
        return f"{self.directory}/Slot {number:02}"

    def put(self, number, disk):
        """A disk stands in a slot; `None`: nothing does."""
        slot = self.slot(number)
        if not os.path.isdir(slot):
            os.mkdir(slot)
            write(slot + "/locate", "0\n")
            write(slot + "/fault", "0\n")
            write(slot + "/slot", f"{number}\n")
        write(slot + "/status", "OK\n" if disk else "not installed\n")
        if os.path.islink(slot + "/device"):
            os.remove(slot + "/device")
        if disk:
            name = f"{disk.hosts[0]}:0:{disk.target}:0"
            os.symlink(os.path.realpath(f"/sys/class/scsi_device/{name}/device"), slot + "/device")

    def light(self, number):
        return read(self.slot(number) + "/locate") != "0"


class Machine:
    def __init__(self):
        self.disks = []
        self.maps = {}
        self.server = None

    # Disks and what stands on them.

    def build(self):
        for number in range(DISKS):
            disk = Disk(number)
            disk.plug(is_new=number > 0)
            self.disks.append(disk)
        self.keep()
        for disk in self.disks:
            self.lay(disk)
            self.format(disk)
            self.mount(disk, disk.number)

    def keep(self):
        """Kist's own choice of paths, which makes the maps."""
        said = open(KEPT, "a")
        self.keeper = subprocess.Popen([KIST, "disk", "paths", "keep", "--every", "1"], stdout=said, stderr=said)

    @staticmethod
    def kept():
        """What it has said."""
        return read(KEPT)

    def map(self, disk):
        """The map over the paths of a disk, once it is there."""
        name = "kist-" + read(f"/sys/block/{os.path.basename(disk.paths()[0])}/device/wwid")
        until(f"{name} is made", 30, lambda: os.path.exists(f"/dev/mapper/{name}"), 0.1)
        self.maps[disk.number] = name
        return name

    @staticmethod
    def paths_told(disk):
        """The paths of a disk as `kist disk paths` has them, by block device."""
        done = subprocess.run([KIST, "disk", "paths", "--json"], capture_output=True, text=True)
        expect(done.returncode == 0, done.stderr)
        return {row["path"]: row for row in json.loads(done.stdout)["paths"] if row["serial"] == disk.serial}

    def lay(self, disk):
        """A layer that passes everything on, until a check makes it bad."""
        name = f"layer{disk.target}"
        below = f"/dev/mapper/{self.map(disk)}"
        size = run("blockdev", "--getsz", below).strip()
        dm("create", name, "--table", f"0 {size} linear {below} 0")
        disk.layer = name

    def table(self, disk, table, *how):
        """Another table for the layer of a disk: SIZE and BELOW in it are filled in."""
        below = f"/dev/mapper/{self.maps[disk.number]}"
        table = table.replace("SIZE", str(disk.sectors())).replace("BELOW", below)
        dm("suspend", *how, disk.layer)
        dm("load", disk.layer, "--table", table)
        dm("resume", disk.layer)

    def pass_on(self, disk):
        self.table(disk, "0 SIZE linear BELOW 0")

    def format(self, disk):
        # Groups of other sizes: what stands on one disk stands at other sectors than what is on the others. As small
        # as that only for XFS's own tests.
        self.format_at(disk.device, "agcount=3" if disk.number == OTHER_LAYOUT else "agcount=4")

    @staticmethod
    def format_at(device, groups="agcount=4"):
        run("mkfs.xfs", "-q", "-f", "-d", groups, device, env={**os.environ, "TEST_DIR": "1", "TEST_DEV": "1", "QA_CHECK_FS": "1"})

    def place(self, number):
        return os.path.join(INSTANCE, "pool", f"d{number}")

    def mount(self, disk, number):
        os.makedirs(self.place(number), exist_ok=True)
        run("mount", disk.device, self.place(number))

    def states(self, disk):
        """How the kernel says that the paths of a disk are: A or F by device."""
        status = dm("status", self.maps[disk.number])
        return dict(re.findall(r"(\d+:\d+) ([AF]) \d+", status))

    def put_in(self, disk, is_new=True):
        """The disk is put into a slot, and everything but its file system stands on it."""
        disk.plug(is_new)
        self.lay(disk)

    def paths_are_well(self, disk):
        """Waits until the map has both paths of a disk, and uses them."""
        until(f"both paths of disk {disk.number} are used", 30, lambda: list(self.states(disk).values()) == ["A", "A"])

    @staticmethod
    def forget_pages():
        run("sync")
        write("/proc/sys/vm/drop_caches", "3")

    # The server.

    def init(self):
        run(KIST, "init", INSTANCE, "--drives", str(DISKS), "--data", str(DATA), "--parity", str(PARITY),
            "--cartridges", "1", "--tape-drives", "1", "--listen", "127.0.0.1:0")
        # What 'kist disk watch' does by itself; nothing of it happens while that does not run.
        config = os.path.join(INSTANCE, "kist.toml")
        text = read(config)
        for before, after in [('replace = "no"', 'replace = "blank"'), ("lights = false", "lights = true"),
                              ('predicted_failure = "tell"', 'predicted_failure = "drain"'),
                              # Disks of this size have no room for one.
                              ('replace_burn_in = "quick"', 'replace_burn_in = "off"')]:
            expect(text.count(before) == 1, f"{before} in {text}")
            text = text.replace(before, after)
        write(config, text + "\n")

    def serve(self):
        log = open(os.path.join(SCRATCH, "server.log"), "a")
        self.server = subprocess.Popen([KIST, "serve", INSTANCE], stdout=log, stderr=log)
        until("the server answers", 60, self.answers)

    def kill(self):
        self.server.kill()
        self.server.wait()

    def clear(self):
        """No check begins with what another one left."""
        if Load.begun:
            self.quiet("rm", "-r", "--quiet", *Load.begun)
            Load.begun.clear()
        until("every drive is up", 60, lambda: all(drive["state"] == "up" for drive in self.pool()["drives"]), 1)

    def answers(self):
        expect(self.server.poll() is None, "the server ended: " + self.log()[-3000:])
        return subprocess.run([KIST, "--instance", INSTANCE, "status"], capture_output=True).returncode in (0, 4)

    def stop(self):
        self.server.terminate()
        expect(self.server.wait(timeout=60) == 0, "the server stopped in order")

    @staticmethod
    def log():
        return read(os.path.join(SCRATCH, "server.log"))

    @staticmethod
    def kist(*command, **more):
        return run(KIST, *command, "--instance", INSTANCE, **more)

    def pool(self):
        done = subprocess.run([KIST, "pool", "show", "--json", "--instance", INSTANCE], capture_output=True, text=True)
        expect(done.returncode == 0, done.stderr)
        return json.loads(done.stdout)

    def drive(self, number):
        return next(drive for drive in self.pool()["drives"] if drive["id"] == number)

    def unmount(self, number):
        """As an operator does it, who is not to have to stop the server for that."""
        until(f"d{number} can be unmounted", 30,
              lambda: subprocess.run(["umount", self.place(number)], capture_output=True).returncode == 0)

    def pull(self, disk):
        """The disk is taken out of its slot: no path leads to it any more."""
        for host in disk.hosts:
            disk.lose(host)

    def forget(self, disk):
        """What stood on a disk that was pulled is taken down: the layer here, the map by who made it."""
        until(f"{disk.layer} is in nobody's use", 20,
              lambda: subprocess.run(["dmsetup", "remove", disk.layer], capture_output=True).returncode == 0)
        name = self.maps.pop(disk.number)
        until(f"{name} is taken away", 60, lambda: not os.path.exists(f"/dev/mapper/{name}"))

    @staticmethod
    def watch(*more):
        """One look of 'kist disk watch'; gives what it says, by drive."""
        # As small as that only for XFS's own tests.
        small = {**os.environ, "TEST_DIR": "1", "TEST_DEV": "1", "QA_CHECK_FS": "1"}
        said = run(KIST, "disk", "watch", "--once", "--json", *more, "--instance", INSTANCE, env=small)
        lines = {}
        for line in map(json.loads, said.splitlines()):
            of_drive = lines.setdefault(line["drive"], {})
            of_drive[line["what"]] = "; ".join(filter(None, [of_drive.get(line["what"]), line["text"]]))
        return lines

    def state(self, number):
        return self.drive(number)["state"]

    def wait_until_whole(self, seconds=60):
        """Until every drive is up and has all that it should hold; then all of the pool is read, and nothing is wrong."""
        def is_whole():
            drives = self.pool()["drives"]
            is_mended = json.loads(self.quiet("scrub", "--json"))["waiting"] == 0
            return is_mended and all(d["state"] == "up" and d["gaps_after"] is None and not d["filling"] for d in drives)
        until("every drive is up and has all that it should hold", seconds, is_whole, 1)
        # One pass writes what is missing still, the next one finds nothing any more.
        for _ in range(2):
            scrub = json.loads(self.quiet("scrub", "--now", "--json", "--quiet"))
            expect(scrub["failed"] == 0 and scrub["lost"] == 0, scrub)
        expect(scrub["found"] == 0, scrub)

    @staticmethod
    def quiet(*command):
        done = subprocess.run([KIST, *command, "--instance", INSTANCE], capture_output=True, text=True, timeout=120)
        expect(done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout


class Load:
    """Clients: one puts, one gets and compares, until the end. What was acknowledged is compared once more in `compare`."""

    SIZES = [1, 70_000, 300_000, 1_500_000, 4_000_000]
    KEPT_MAX = 24
    begun = []

    def __init__(self, name):
        self.name = name
        self.random = random.Random(name)
        self.kept = {}
        self.lock = threading.Lock()
        self.times = {"put": [], "get": []}
        self.refused = []
        self.wrong = []
        self.ends = False

    def __enter__(self):
        self.ends = False
        self.begun.append("/" + self.name)
        self.threads = [threading.Thread(target=each) for each in (self.put_all, self.get_all)]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ends = True
        for thread in self.threads:
            thread.join()
        return False

    def call(self, kind, *command):
        begin = time.monotonic()
        done = subprocess.run([KIST, *command, "--quiet", "--instance", INSTANCE], capture_output=True, text=True)
        self.times[kind].append((begin, time.monotonic() - begin))
        if done.returncode != 0:
            self.refused.append(f"{kind} {command[-1]}: {done.returncode} {done.stderr.strip()}")
        return done.returncode == 0

    def put_all(self):
        number = 0
        while not self.ends:
            if len(self.kept) >= self.KEPT_MAX:
                self.remove_one()
            path, file = f"/{self.name}/{number}", os.path.join(SCRATCH, self.name + ".put")
            body = self.random.randbytes(self.random.choice(self.SIZES))
            number += 1
            with open(file, "wb") as out:
                out.write(body)
            if self.call("put", "put", file, path):
                with self.lock:
                    self.kept[path] = (len(body), hashlib.sha256(body).hexdigest())

    def remove_one(self):
        with self.lock:
            path = next(iter(self.kept))
            del self.kept[path]
        subprocess.run([KIST, "rm", path, "--quiet", "--instance", INSTANCE], capture_output=True)

    def get_all(self):
        choose = random.Random(self.name + "get")
        while not self.ends:
            with self.lock:
                paths = list(self.kept)[8:]
            if not paths:
                time.sleep(0.1)
                continue
            self.get(choose.choice(paths))

    def get(self, path):
        file = os.path.join(SCRATCH, f"{self.name}.get")
        if os.path.exists(file):
            os.remove(file)
        with self.lock:
            wanted = self.kept.get(path)
        if wanted is None or not self.call("get", "get", path, file):
            return False
        with open(file, "rb") as body:
            body = body.read()
        if (len(body), hashlib.sha256(body).hexdigest()) != wanted:
            self.wrong.append(path)
        return True

    def wait(self, puts, gets):
        """Until so many more of each have been answered."""
        begin = {kind: len(times) for kind, times in self.times.items()}
        until(f"{puts} puts and {gets} gets", 60,
              lambda: len(self.times["put"]) >= begin["put"] + puts and len(self.times["get"]) >= begin["get"] + gets)

    def compare(self):
        """Every file that was acknowledged has its bytes: all are read by one command."""
        out = os.path.join(SCRATCH, f"{self.name}.all")
        shutil.rmtree(out, ignore_errors=True)
        os.mkdir(out)
        done = subprocess.run([KIST, "get", *self.kept, out, "--quiet", "--instance", INSTANCE],
                              capture_output=True, text=True) if self.kept else None
        expect(done is None or done.returncode == 0, f"not all of {self.name} can be read: {done}")
        for path, wanted in self.kept.items():
            with open(os.path.join(out, os.path.basename(path)), "rb") as body:
                body = body.read()
            if (len(body), hashlib.sha256(body).hexdigest()) != wanted:
                self.wrong.append(path)
        shutil.rmtree(out, ignore_errors=True)
        expect(not self.wrong, f"wrong bytes: {self.wrong}")
        print(f"  {self.name}: {len(self.kept)} files compared; {self.words()}", flush=True)

    def words(self, begin=0, end=float("inf")):
        said = []
        for kind, times in self.times.items():
            spans = sorted(span for at, span in times if begin <= at < end)
            if spans:
                said.append(f"{len(spans)} {kind}s, median {spans[len(spans) // 2]:.2f} s, longest {spans[-1]:.2f} s")
        return "; ".join(said) + f"; {len(self.refused)} refused"
