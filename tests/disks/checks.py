#!/usr/bin/env python3
"""What Kist makes of disks that fail under load. Runs inside the User-Mode Linux of tests/disks/run, as its root."""

import atexit
import json
import os
import re
import signal
import subprocess
import time

import faults
from checking import SCRATCH, chosen, expect, run, run_all
from machine import DISKS, INSTANCE, KIST, OTHER_LAYOUT, Disk, Enclosure, Load, Machine, dm, read, until, write


def health(serial):
    disks = json.loads(run(KIST, "disk", "health", "--json", ok=(0, 1)))["disks"]
    return next(disk for disk in disks if disk["serial"] == serial)


def two_paths_are_one_disk(machine):
    shown = json.loads(run(KIST, "disk", "ls", "--json"))["disks"]
    expect(len(shown) == DISKS and all(len(disk["paths"]) == 2 for disk in shown), shown)
    expect({disk["serial"] for disk in shown} == {disk.serial for disk in machine.disks}, shown)
    expect({disk["multipath"] for disk in shown} == set(machine.maps.values()), shown)
    disk = machine.disks[0]
    expect(health(disk.serial)["verdict"] == "good", health(disk.serial))
    disk.lose(disk.hosts[1])
    told = health(disk.serial)
    expect([reason["reason"] for reason in told["reasons"]] == ["few-paths"], told)
    # No enclosure is here: whoever asks for a light is told that.
    said = subprocess.run([KIST, "disk", "locate", disk.serial, "on"], capture_output=True, text=True)
    expect(said.returncode != 0 and "light cannot be reached" in said.stderr, said)
    disk.find(disk.hosts[1])
    machine.paths_are_well(disk)
    expect(health(disk.serial)["verdict"] == "good", health(disk.serial))


def a_disk_that_is_used_gets_no_map(machine):
    """Nor is a map touched that somebody else made."""
    machine.keeper.terminate()
    machine.keeper.wait()
    disk = Disk(DISKS + 1)
    disk.plug(is_new=True)
    first, second = disk.paths()
    machine.format_at(first)
    place = os.path.join(SCRATCH, "used")
    os.mkdir(place)
    run("mount", first, place)
    size = run("blockdev", "--getsz", second).strip()
    machine.keep()
    name = os.path.basename(first)
    until("it is told", 20, lambda: f"{name}: it is mounted at {place}" in machine.kept())
    run("umount", place)
    # As a stranger's map over one of its paths.
    machine.keeper.terminate()
    machine.keeper.wait()
    dm("create", "foreign", "--uuid", "LVM-foreign", "--table", f"0 {size} linear {second} 0")
    table = dm("table", "foreign")
    machine.keep()
    until("it is told", 20, lambda: "foreign stands on it" in machine.kept())
    expect(dm("table", "foreign") == table, "it is what it was")
    dm("remove", "foreign")
    machine.pull(disk)


def a_path_is_lost_under_load_and_comes_back(machine):
    disk = machine.disks[1]
    with Load("paths") as load:
        load.wait(6, 4)
        disk.lose(disk.hosts[0])
        until("the lost path is left", 20, lambda: len(machine.states(disk)) == 1)
        load.wait(6, 6)
        disk.find(disk.hosts[0])
        machine.paths_are_well(disk)
        load.wait(4, 4)
        # The other one is switched off, and not pulled.
        state = f"/sys/class/scsi_device/{disk.hosts[1]}:0:{disk.target}:0/device/state"
        block = os.path.basename(disk.path_of(disk.hosts[1]))
        write(state, "offline\n")
        until("the path that is off is left", 20, lambda: "F" in machine.states(disk).values())
        until("it is told", 20, lambda: machine.paths_told(disk)[block]["state"] == "failed")
        print(f"  {machine.paths_told(disk)[block]}", flush=True)
        load.wait(4, 4)
        write(state, "running\n")
        machine.paths_are_well(disk)
        told = until("that is told too", 20, lambda: machine.paths_told(disk)[block]["state"] == "well"
                     and machine.paths_told(disk)[block])
        expect("well for 1" in told["why"] and told["made_by"] == "kist" and told["since"], told)
    load.compare()
    expect(not load.refused, load.refused)
    drive = machine.drive(disk.number)
    expect(drive["state"] == "up" and drive["errors"] == 0, drive)
    said = [line for line in machine.kept().splitlines() if f"{block} " in line]
    expect(any("has failed and is left" in line for line in said) and "is used again" in said[-1], said)


def blocks_cannot_be_read(machine):
    disk = machine.disks[OTHER_LAYOUT]
    begin = time.time()
    with Load("medium") as load:
        load.wait(20, 5)
    extent, first = faults.extent_alone(machine, disk, begin)
    print(f"  {extent} at sector {first}", flush=True)
    before = machine.drive(disk.number)["errors"]
    with faults.MediumErrors(first) as fault:
        machine.forget_pages()
        load.compare()
        expect(fault.fired(disk) > 0, "the fault fired")
        until("the extent is mended", 60, lambda: faults.sectors_of(extent) and first not in faults.sectors_of(extent))
    expect(machine.drive(disk.number)["errors"] > before, machine.drive(disk.number))
    words = [line for line in machine.log().splitlines() if "No data available" in line]
    expect(words and all(f"drive {disk.number}" in line or f"drive={disk.number}" in line for line in words), words)
    print("  " + words[0], flush=True)
    machine.wait_until_whole()
    expect(not load.refused, load.refused)


def a_disk_becomes_ten_times_slower(machine):
    disk = machine.disks[3]
    with Load("slow") as load:
        load.wait(10, 10)
        usual = faults.time_of_a_read(disk)
        machine.table(disk, f"0 SIZE delay BELOW 0 {max(round(usual * 10_000), 30)}")
        slow = faults.time_of_a_read(disk)
        print(f"  a read of 256 KiB took {usual:.4f} s and takes {slow:.4f} s", flush=True)
        expect(slow > 9 * usual, "it is ten times slower")
        begin = time.monotonic()
        load.wait(20, 10)
        end = time.monotonic()
        drive = machine.drive(disk.number)
        words = machine.kist("pool", "show"), machine.kist("status")
        machine.pass_on(disk)
    print("  before: " + load.words(end=begin), flush=True)
    print("  slow: " + load.words(begin, end), flush=True)
    load.compare()
    expect(drive["slow"] and drive["slow"] >= 8 and drive["state"] == "up", drive)
    expect(f"drive {disk.number}: slow" in words[0] and "much slower than the others" in words[1], words)
    print("  " + re.search(r"^drive \d+: slow.*", words[0], re.M).group(0), flush=True)
    expect(not load.refused, load.refused)


def a_disk_lies_and_loses_its_power(machine):
    disk = machine.disks[4]
    with Load("before") as before:
        before.wait(10, 4)
    run("sync")
    machine.table(disk, "0 SIZE flakey BELOW 0 0 3600 1 drop_writes")
    written = faults.sectors_written(disk)
    begin = time.monotonic()
    with Load("lie") as load:
        load.wait(15, 10)
        # The others are stamped with what the liar has not kept: every ten seconds.
        time.sleep(max(0, 15 - (time.monotonic() - begin)))
    run("sync")
    dropped = faults.sectors_written(disk) - written
    print(f"  {dropped} sectors were acknowledged and dropped", flush=True)
    expect(dropped > 0, "the fault fired")
    machine.kill()
    run("umount", machine.place(disk.number))
    machine.pass_on(disk)
    machine.forget_pages()
    machine.mount(disk, disk.number)
    machine.serve()
    told = [line for line in machine.log().splitlines() if "the superblock of a pool drive is old" in line]
    expect(len(told) == 1 and f"drive={disk.number} " in told[0], told)
    print("  " + told[0], flush=True)
    load.compare()
    before.compare()
    machine.wait_until_whole()
    load.compare()
    expect(not load.refused, load.refused)


def a_disk_is_pulled_and_replaced(machine):
    disk = machine.disks[5]
    with Load("pulled") as load:
        load.wait(6, 6)
        begin = time.monotonic()
        machine.pull(disk)
        until("the drive is told to fail", 30, lambda: machine.state(disk.number) in ("suspect", "away"))
        print(f"  after {time.monotonic() - begin:.1f} s: {machine.drive(disk.number)['reason']}", flush=True)
        load.wait(6, 6)
        machine.unmount(disk.number)
        machine.forget(disk)
        new = Disk(DISKS)
        machine.put_in(new)
        machine.format(new)
        machine.mount(new, disk.number)
        machine.disks[disk.number] = new
        replace = [KIST, "pool", "drive", "replace", str(disk.number), "--instance", INSTANCE]
        said = subprocess.run(replace, capture_output=True, text=True)
        expect(said.returncode == 4 and "another, empty disk is mounted there" in said.stderr, said)
        print("  " + run(*replace, "--new"), flush=True)
        until("the new disk is in use", 30, lambda: machine.state(disk.number) == "up")
        load.wait(5, 5)
    machine.wait_until_whole(90)
    load.compare()
    expect(not load.refused, load.refused)


def a_disk_comes_back_in_another_slot(machine):
    # What was plugged in last: only to its store new hosts can lead.
    disk = max(machine.disks, key=lambda disk: max(disk.hosts))
    number = machine.disks.index(disk)
    uuid = run("blkid", "-s", "UUID", "-o", "value", disk.device).strip()
    with Load("slot") as load:
        load.wait(8, 4)
        before = disk.paths()
        machine.pull(disk)
        until("the drive is told to fail", 30, lambda: machine.state(number) in ("suspect", "away"))
        load.wait(6, 6)
        machine.unmount(number)
        machine.forget(disk)
        hosts = disk.hosts
        machine.put_in(disk, is_new=False)
        expect(not set(hosts) & set(disk.hosts), "other hosts lead to it")
        print(f"  {before} are {disk.paths()} now", flush=True)
        found = [one.device for one in machine.disks if
                 run("blkid", "-s", "UUID", "-o", "value", one.device).strip() == uuid]
        expect(found == [disk.device], found)
        machine.mount(disk, number)
        begin = time.monotonic()
        until("the drive is in use again", 60, lambda: machine.state(number) == "up")
        print(f"  taken back after {time.monotonic() - begin:.1f} s", flush=True)
        load.wait(4, 4)
    machine.wait_until_whole()
    load.compare()
    expect(not load.refused, load.refused)


def a_disk_in_the_slot_of_a_dead_one_is_taken_up_by_policy(machine):
    """Lost, its light on; a disk that is not blank stays as it is; a blank one becomes the drive, its light off."""
    number = 7
    dead = machine.disks[number]
    enclosure = Enclosure(machine.disks[0].hosts[0])
    for at, disk in enumerate(machine.disks):
        enclosure.put(at, disk)
    found = machine.watch()
    expect(all("found" in found[at] and f"slot {at} of enclosure {enclosure.IDENTIFIER}" in found[at]["found"]
               for at in range(DISKS)), found)
    # A test of whether anybody heeds predictions is none: every disk says so now, and no drive is emptied.
    faults.test_predictions(dead, True)
    for _ in range(2):
        said = machine.watch()
    faults.test_predictions(dead, False)
    expect("5Dh/FFh" in said[number]["found"] and "drained" not in said[number], said)
    with Load("slots") as load:
        load.wait(8, 4)
        machine.pull(dead)
        enclosure.put(number, None)
        until("the drive is told to fail", 30, lambda: machine.state(number) in ("suspect", "away"))
        load.wait(4, 4)
    run(KIST, "pool", "drive", "lost", str(number), "--instance", INSTANCE)
    said = machine.watch()
    expect("no disk is seen in its slot" in said[number]["waits"] and enclosure.light(number), said)
    shown = machine.kist("pool", "show")
    expect(f"in slot {number} of enclosure {enclosure.IDENTIFIER}; its light is on" in shown, shown)
    # One with something in its middle: nothing stands at either end.
    new = Disk(DISKS + 2)
    new.plug(is_new=True)
    device = f"/dev/mapper/{machine.map(new)}"
    with open(device, "r+b") as file:
        file.seek(48 << 20)
        file.write(b"somebody's")
    run("sync")
    enclosure.put(number, new)
    said = machine.watch()
    expect(f"is not blank: something stands at byte {48 << 20}" in said[number]["waits"], said)
    with open(device, "r+b") as file:
        expect(file.read(16 << 20) == bytes(16 << 20), "nothing was written to it")
        file.seek(48 << 20)
        file.write(bytes(4096))
    machine.forget_pages()
    would = machine.watch("--dry-run")
    expect("a file system would be made" in would[number]["would"], would)
    # What is left of the dead one is mounted still.
    expect(f" {machine.place(number)} " in read("/proc/mounts"), "nobody has unmounted it")
    said = machine.watch()
    expect("replaced" in said[number] and "/etc/fstab wants: UUID=" in said[number]["made"], said)
    print("  " + said[number]["made"], flush=True)
    until("the new disk is in use", 30, lambda: machine.state(number) == "up")
    found = machine.watch()
    expect(new.serial and not enclosure.light(number) and "slot 7 of" in found[number]["found"], found)
    expect(machine.drive(number)["disk"].get("light") is None, machine.drive(number))
    new.layer = machine.maps[new.number]
    machine.disks[number] = new
    machine.forget(dead)
    machine.wait_until_whole(90)
    load.compare()
    expect(not load.refused, load.refused)


CHECKS = [
    two_paths_are_one_disk,
    a_disk_that_is_used_gets_no_map,
    blocks_cannot_be_read,
    a_path_is_lost_under_load_and_comes_back,
    a_disk_becomes_ten_times_slower,
    a_disk_lies_and_loses_its_power,
    a_disk_is_pulled_and_replaced,
    a_disk_comes_back_in_another_slot,
    a_disk_in_the_slot_of_a_dead_one_is_taken_up_by_policy,
]


def show_log(machine):
    """What the server and the choice of paths said, for whoever reads the whole output."""
    for line in machine.log().splitlines() + machine.kept().splitlines():
        print("    " + line[:300], flush=True)


def main():
    checks = chosen(CHECKS)
    machine = Machine()
    machine.build()
    machine.init()
    machine.serve()
    atexit.register(show_log, machine)
    run_all(checks, machine, machine.clear)


main()
