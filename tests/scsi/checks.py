#!/usr/bin/env python3
"""What stock programs and Kist's own transport see of the virtual library through a kernel's /dev/sg*.

Runs inside the User-Mode Linux of tests/scsi/run, as its root. Prints `ok NAME` or `FAILED NAME` for each check, and
ends with 1 if one failed."""

import json
import os
import re
import shutil
import subprocess
import time

from checking import HERE, SCRATCH, chosen, expect, run, run_all

PORTAL = "127.0.0.1:3260"
TARGET = "iqn.2026-11.org.kist:library"
CARTRIDGES = 6
# So large that drives are told to warn of their end (a sixty-fourth of them, from 32 MB on).
CARTRIDGE = "4GB"
# A block as LTFS writes them.
BLOCK = 512 * 1024


class Machine:
    """The target, and what the kernel made of it."""

    def __init__(self):
        self.kist = os.path.join(HERE, "kist")
        self.directory = os.path.join(SCRATCH, "library")
        self.server = None

    def serve(self):
        command = [self.kist, "library", "serve", self.directory, "--listen", PORTAL, "--name", TARGET]
        command += ["--drives", "2", "--new-cartridges", str(CARTRIDGES), "--cartridge-size", CARTRIDGE]
        command += ["--new-cleaning-cartridges", "1"]
        self.server = subprocess.Popen(command, stdout=open(os.path.join(SCRATCH, "target.log"), "w"), stderr=2)
        for _ in range(100):
            if subprocess.run(["iscsiadm", "-m", "discovery", "-t", "sendtargets", "-p", PORTAL],
                              capture_output=True).returncode == 0:
                return
            expect(self.server.poll() is None, "the target ended: " + open(SCRATCH + "/target.log").read())
            time.sleep(0.1)
        raise AssertionError("nothing answers at " + PORTAL)

    def log_in(self):
        run("iscsiadm", "-m", "node", "-T", TARGET, "-p", PORTAL, "-l")
        for _ in range(100):
            found = self.devices()
            if len(found["mediumx"]) == 1 and len(found["tape"]) == 2:
                self.changer = found["mediumx"][0][1]
                self.drives = found["tape"]
                return
            time.sleep(0.1)
        raise AssertionError(f"the kernel shows {found}")

    @staticmethod
    def devices():
        """The devices by type: (name of the class device, /dev/sg*)."""
        found = {"mediumx": [], "tape": []}
        for line in run("lsscsi", "-g").splitlines():
            words = line.split()
            if words[1] in found:
                found[words[1]].append((words[-2], words[-1]))
        return found

    def nst(self, number=0):
        return self.drives[number][0].replace("/dev/st", "/dev/nst")

    def unload(self, slot):
        run("mt", "-f", self.nst(), "offline")
        run("mtx", "-f", self.changer, "unload", str(slot), "0")

    def clear(self):
        """No check finds what another one left in a drive."""
        for slot in re.findall(r"Data Transfer Element 0:Full \(Storage Element (\d+) Loaded\)", self.status()):
            self.unload(int(slot))

    def status(self):
        return run("mtx", "-f", self.changer, "status")


def start_iscsid():
    with open("/etc/iscsi/initiatorname.iscsi", "w") as file:
        file.write("InitiatorName=iqn.2026-11.org.kist:uml\n")
    with open("/etc/iscsi/iscsid.conf", "w") as file:
        file.write("node.startup = manual\nnode.conn[0].timeo.noop_out_interval = 0\n"
                   "node.conn[0].timeo.noop_out_timeout = 0\nnode.session.timeo.replacement_timeout = 20\n"
                   "node.session.iscsi.InitialR2T = No\nnode.session.iscsi.ImmediateData = Yes\n")
    run("iscsid")


def each_unit_has_an_identity(machine):
    serials = set()
    for device in [machine.changer] + [sg for _, sg in machine.drives]:
        serials.add(re.search(r"Unit serial number: (\S+)", run("sg_vpd", "-p", "sn", device)).group(1))
        identification = run("sg_vpd", "-p", "di", device)
        expect("NAA" in identification and "T10 vendor identification" in identification, identification)
    expect(len(serials) == 3, serials)


def mtx_moves_cartridges(machine):
    before = machine.status()
    expect(before.count("Full :VolumeTag=") == CARTRIDGES + 1, before)
    tag = re.search(r"Storage Element 1:Full :VolumeTag=(\S+)", before).group(1)
    run("mtx", "-f", machine.changer, "load", "1", "0")
    loaded = machine.status()
    expect(f"Data Transfer Element 0:Full (Storage Element 1 Loaded):VolumeTag = {tag}" in loaded, loaded)
    run("mtx", "-f", machine.changer, "load", "2", "0", ok=(1,))
    # A drive keeps its tape until it is told to let it go.
    run("mtx", "-f", machine.changer, "unload", "1", "0", ok=(1,))
    machine.unload(1)
    run("mtx", "-f", machine.changer, "transfer", "1", str(CARTRIDGES + 2))
    moved = machine.status()
    expect(f"Storage Element {CARTRIDGES + 2}:Full :VolumeTag={tag}" in moved, moved)
    run("mtx", "-f", machine.changer, "transfer", str(CARTRIDGES + 2), "1")
    expect(machine.status() == before, "all is where it was")


def mtx_cleans_a_drive(machine):
    """The robot puts a cleaning cartridge in: the drive says so, does it, pushes it out, and tells by a flag."""
    shown = machine.status()
    slot = re.search(r"Storage Element (\d+):Full :VolumeTag=CLN001", shown).group(1)
    def counted():
        with open(os.path.join(machine.directory, "cleaning", "CLN001")) as file:
            return int(file.read())
    before, drive = counted(), machine.drives[0][1]
    run("mtx", "-f", machine.changer, "load", slot, "0")
    asked = run("sg_turs", "-v", drive, ok=(2, 5, 12))
    expect(counted() == before - 1, "a use is counted")
    deadline = time.time() + 60
    while subprocess.run(["mtx", "-f", machine.changer, "unload", slot, "0"], capture_output=True).returncode != 0:
        expect(time.time() < deadline, "the drive keeps it: " + asked)
        time.sleep(0.5)
    flags = run("sg_logs", "-p", "0x2e", drive)
    expect(re.search(r"Cleaning media: 1", flags), flags)
    expect(machine.status() == shown, "it is where it was")


def mt_writes_reads_and_finds_its_place(machine):
    run("mtx", "-f", machine.changer, "load", "1", "0")
    nst = machine.nst()
    data = os.path.join(SCRATCH, "data")
    with open(data, "wb") as file:
        file.write(os.urandom(20 * BLOCK))
    run("mt", "-f", nst, "setblk", "0")
    for _ in range(2):
        run("dd", f"if={data}", f"of={nst}", f"bs={BLOCK}", "status=none")
    told = run("mt", "-f", nst, "tell")
    # Two files of 20 blocks, each with its mark.
    expect("At block 42" in told, told)
    run("mt", "-f", nst, "seek", "21")
    back = os.path.join(SCRATCH, "back")
    run("dd", f"if={nst}", f"of={back}", f"bs={BLOCK}", "status=none")
    run("cmp", data, back)
    run("mt", "-f", nst, "eod")
    expect("At block 42" in run("mt", "-f", nst, "tell"), "the end of data")
    run("mt", "-f", nst, "bsf", "2")
    run("mt", "-f", nst, "fsf", "1")
    expect("At block 21" in run("mt", "-f", nst, "tell"), "behind the first mark")
    # Beyond the end of data there is nothing.
    run("mt", "-f", nst, "seek", "43", ok=(2,))
    run("mt", "-f", nst, "rewind")
    status = run("mt", "-f", nst, "status")
    expect("BOT ONLINE" in status and "Tape block size 0 bytes" in status, status)
    machine.unload(1)


def bacula_finds_the_drive_fit(machine):
    """Bacula's own test of a drive: blocks and marks written, read back, found by number and appended to, through st. Its
    10,000 records a file are of 4 KiB here: a kernel in user mode takes minutes for those of 63 KiB."""
    run("mtx", "-f", machine.changer, "load", "3", "0")
    nst = machine.nst()
    run("mt", "-f", nst, "setblk", "0")
    home = os.path.join(HERE, "btape")
    file = os.path.join(SCRATCH, "btape.conf")
    with open(file, "w") as settings:
        settings.write(f"""
Storage {{ Name = sd; WorkingDirectory = {SCRATCH}; Pid Directory = {SCRATCH} }}
Director {{ Name = director; Password = "none" }}
Messages {{ Name = Standard; stdout = all }}
Device {{
  Name = drive; Media Type = tape; Archive Device = {nst}; AutomaticMount = yes; AlwaysOpen = yes
  RemovableMedia = yes; RandomAccess = no; Maximum Block Size = 4096
}}
""")
    libraries = ":".join(os.path.join(home, at) for at in
                         ["usr/lib/bacula", "lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"])
    said = run(os.path.join(home, "usr/sbin/btape"), "-c", file, nst, input="test\nquit\n",
               env={**os.environ, "LD_LIBRARY_PATH": libraries})
    print(said)
    # What it wrote is there, by number too; marks are found, and what is behind the end of data is appended.
    expect(said.count("Test Succeeded. End Write, rewind, and re-read test") == 2, said)
    expect("1 block of 4032 bytes in file 4\nEnd of File mark.\nTotal files=4, blocks=7, bytes = 28,224" in said, said)
    expect(said.count("This is correct!") == 6 and "Block re-read correct. Test succeeded!" in said, said)
    expect("=== End Forward space files test ===" in said, said)
    wrong = [line for line in said.splitlines() if re.search(r"\b(error|failed|incorrect|wrong)\b", line, re.I)]
    expect(not wrong, said)
    machine.unload(3)


def sg3_utils_read_logs_modes_and_memory(machine):
    run("mtx", "-f", machine.changer, "load", "1", "0")
    drive = machine.drives[0][1]
    run("mt", "-f", machine.nst(), "status")
    logs = run("sg_logs", "-a", drive)
    for page in ["Tape alert page", "Volume statistics page", "Sequential access device page"]:
        expect(page in logs, logs)
    memory = run("sg_read_attr", drive)
    expect("Volume change reference" in memory, memory)
    # The log pages of the changer: a stranger knows what each of its counts is.
    robot = run("sg_logs", "-a", machine.changer)
    moves = int(re.search(r"Number of moves: (\d+)", robot).group(1))
    expect(moves > 0 and f"Number of picks: {moves}" in robot and "Number of place retries: 0" in robot, robot)
    modes = run("sg_modes", "-a", drive)
    expect("Medium Partition [1]" in modes and "Device configuration" in modes, modes)
    commands = run("sg_opcodes", drive)
    for command in ["Locate(16)", "Read position", "Format medium", "Write filemarks(6)"]:
        expect(command.lower() in commands.lower(), commands)
    keys = run("sg_persist", "-k", drive)
    expect("NO registered reservation keys" in keys, keys)
    machine.unload(1)


def bsg_of(sg):
    """The node of the other generic driver that leads to the same unit."""
    device = os.path.realpath(f"/sys/class/scsi_generic/{os.path.basename(sg)}/device")
    node = "/dev/bsg/" + os.path.basename(device)
    expect(os.path.exists(node), f"{node} is not there")
    return node


def kist_writes_and_reads_a_tape_through_bsg(machine):
    """The acceptance test, which does all that the archive asks of a drive, by SG_IO version 4."""
    archive = Archive(machine)
    nodes = [bsg_of(sg) for sg in [machine.changer] + [sg for _, sg in machine.drives]]
    serials = [re.search(r"Unit serial number: (\S+)", run("sg_vpd", "-p", "sn", node)).group(1) for node in nodes]
    expect(len(set(serials)) == 3, serials)
    # A machine without sg: its class is not there, and that of bsg is.
    run("mount", "-t", "tmpfs", "tmp", "/sys/class/scsi_generic")
    try:
        scan = json.loads(run(machine.kist, "library", "scan", "--json"))
        changer, = scan["changers"]
        expect(changer["address"] == nodes[0], scan)
        expect([drive["address"] for drive in changer["drives"]] == nodes[1:], scan)
        report = json.loads(run(machine.kist, "library", "test", "--quiet", "--instance", archive.directory, "--tape", "KV0006",
                                "--destroy", "KV0006", "--data", "16MiB", "--drive", "drive1", "--json"))
    finally:
        run("umount", "/sys/class/scsi_generic")
    expect(report["passed"], report)
    verdicts = {step["name"]: step["verdict"] for step in report["drives"][0]["steps"]}
    for step in ["positions", "read back", "block protection", "rates by block size", "programmable early warning"]:
        expect(verdicts[step] == "pass", verdicts)
    shutil.rmtree(archive.directory)


def kist_finds_the_same_devices(machine):
    scan = json.loads(run(machine.kist, "library", "scan", "--json"))
    print(json.dumps(scan, indent=1)[:6000])
    text = run(machine.kist, "library", "scan")
    for _, sg in machine.drives + [("", machine.changer)]:
        serial = re.search(r"Unit serial number: (\S+)", run("sg_vpd", "-p", "sn", sg)).group(1)
        expect(serial in text, f"{serial} is not in {text}")
    expect('kind = "scsi"' in text and "serial:" in text, text)


class Archive:
    """A server on this library, reached through /dev/sg*."""

    def __init__(self, machine):
        self.kist = machine.kist
        self.directory = os.path.join(SCRATCH, "archive")
        run(self.kist, "init", self.directory, "--drives", "3", "--data", "2", "--parity", "1", "--cartridges", "1",
            "--listen", "127.0.0.1:0")
        file = os.path.join(self.directory, "kist.toml")
        with open(file) as settings:
            text = settings.read()
        serials = [re.search(r"Unit serial number: (\S+)", run("sg_vpd", "-p", "sn", device)).group(1)
                   for device in [machine.changer] + [sg for _, sg in machine.drives]]
        library = ('[library]\nkind = "scsi"\n'
                   f'changer = "serial:{serials[0]}"\n'
                   f'drives = ["serial:{serials[1]}", "serial:{serials[2]}"]\n'
                   f'cartridge_capacity = "{CARTRIDGE}"\n\n')
        text = re.sub(r"(?ms)^\[library\]\n.*?(?=^\[)", library, text)
        text = re.sub(r'dismount_delay = "[^"]*"', 'dismount_delay = "10min"', text)
        with open(file, "w") as settings:
            settings.write(text)
        self.server = None

    def __enter__(self):
        log = open(os.path.join(SCRATCH, "server.log"), "a")
        self.server = subprocess.Popen([self.kist, "serve", self.directory], stdout=log, stderr=log)
        for _ in range(300):
            if subprocess.run([self.kist, "--instance", self.directory, "status"], capture_output=True).returncode == 0:
                return self
            expect(self.server.poll() is None, "the server ended: " + open(SCRATCH + "/server.log").read())
            time.sleep(0.1)
        raise AssertionError("the server does not answer")

    def __exit__(self, *_):
        self.server.terminate()
        self.server.wait(timeout=60)
        return False

    def run(self, *command, **more):
        return run(self.kist, *command, "--instance", self.directory, **more)

    def fill(self, name):
        tree = os.path.join(SCRATCH, name)
        os.mkdir(tree)
        for number, size in enumerate([0, 1, 70_000, 3_000_000, 20_000_000]):
            with open(os.path.join(tree, f"file{number}"), "wb") as file:
                file.write(os.urandom(size))
        self.run("put", tree, "/" + name)
        self.run("migrate", "--now")
        self.run("wait", "--timeout", "120s")
        return tree


def kist_writes_and_reads_tapes_through_sg(machine):
    machine.archive = archive = Archive(machine)
    with archive:
        tree = archive.fill("first")
        tapes = json.loads(archive.run("tape", "ls", "--json"))
        used = [tape for tape in tapes if tape["containers"] > 0]
        expect(len(used) == 2, tapes)
        archive.run("evict", "/first")
        archive.run("stage", "--wait", "/first")
        archive.run("compare", tree, "/first")
        archive.run("tape", "verify", used[0]["vid"])
    # Nothing is left in a drive, and the stock program sees the cartridges at home.
    status = machine.status()
    expect(status.count("Data Transfer Element") == status.count(":Empty", 0, status.index("Storage Element 1")), status)


def another_host_cannot_write_into_a_session(machine):
    node = ["iscsiadm", "-m", "node", "-T", TARGET, "-p", PORTAL, "-I", "second"]
    run("iscsiadm", "-m", "iface", "-I", "second", "--op=new")
    run("iscsiadm", "-m", "iface", "-I", "second", "--op=update", "-n", "iface.initiatorname", "-v",
        "iqn.2026-11.org.kist:second")
    run(*node, "--op=new")
    run(*node, "-l")
    for _ in range(100):
        found = machine.devices()
        if len(found["tape"]) == 4:
            break
        time.sleep(0.1)
    others = [device for device in found["tape"] if device not in machine.drives]
    expect(len(others) == 2, found)
    archive = machine.archive
    with archive:
        tree = archive.fill("second")
        # Both tapes still stand in their drives, reserved.
        drives = json.loads(archive.run("drive", "ls", "--json"))
        expect(all(drive["vid"] for drive in drives), drives)
        for st, sg in others:
            # The first commands hear that the session is new, and of the cartridge.
            for _ in range(4):
                run("sg_turs", sg, ok=(0, 2, 6))
            keys = run("sg_persist", "-r", sg, ok=(0, 24))
            expect("Exclusive access" in keys or "Exclusive Access" in keys, keys)
            run("dd", "if=/dev/zero", "of=" + st.replace("/dev/st", "/dev/nst"), "bs=64k", "count=4", ok=(1,))
        archive.run("evict", "/second")
        archive.run("stage", "--wait", "/second")
        archive.run("compare", tree, "/second")
        archive.fill("third")
    run(*node, "-u")


CHECKS = [
    each_unit_has_an_identity,
    mtx_moves_cartridges,
    mtx_cleans_a_drive,
    mt_writes_reads_and_finds_its_place,
    bacula_finds_the_drive_fit,
    sg3_utils_read_logs_modes_and_memory,
    kist_finds_the_same_devices,
    kist_writes_and_reads_a_tape_through_bsg,
    kist_writes_and_reads_tapes_through_sg,
    another_host_cannot_write_into_a_session,
]


def main():
    checks = chosen(CHECKS)
    start_iscsid()
    machine = Machine()
    machine.serve()
    machine.log_in()
    run_all(checks, machine, machine.clear)


main()
