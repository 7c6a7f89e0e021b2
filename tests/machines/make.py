#!/usr/bin/env python3
"""Makes the recorded machines in this directory: python3 tests/machines/make.py

They are no recordings of real machines. Names, places and texts are those that Linux shows (drivers/scsi/
scsi_transport_sas.c, drivers/scsi/scsi_sysfs.c, drivers/misc/enclosure.c, drivers/scsi/ses.c, drivers/nvme/host/
sysfs.c, Documentation/ABI/testing/sysfs-bus-pci), shapes those of products: the 5U84 chassis of Dell's ME484 has
two drawers of 42 slots; the Ultrastar Data60 has a primary expander with six host ports and ten lanes to each of
two secondary expanders (its user guide, 1.2). Pages of SES and logs are put together here by the tables of the
standards, not by Kist's own code; `sg_ses --inhex` reads them.
"""

import pathlib
import struct

HERE = pathlib.Path(__file__).parent
GBIT = {6: "6.0 Gbit", 12: "12.0 Gbit", 22.5: "22.5 Gbit", 0: "Unknown"}


class Tree:
    def __init__(self, host, kernel="6.1.0-28-amd64", seconds=1_790_000_000, nodes=1):
        self.files, self.links = {}, {}
        self.text("/about/host", host)
        self.text("/about/kernel", kernel)
        self.text("/about/seconds", seconds)
        for node in range(nodes):
            self.text(f"/sys/devices/system/node/node{node}/cpulist", f"{node * 16}-{node * 16 + 15}")
        self.letters, self.generic = 0, 0

    def text(self, path, value):
        self.files[path] = f"{value}\n".encode()

    def bytes(self, path, value):
        self.files[path] = bytes(value)

    def link(self, path, target):
        self.links[path] = target

    def class_link(self, kind, name, place):
        self.link(f"/sys/class/{kind}/{name}", f"../..{place.removeprefix('/sys')}")

    def write(self, name):
        keep = lambda text, also: "".join(
            c if c.isascii() and c.isprintable() and c not in " %#=>!?" or c in also else f"%{ord(c):02X}"
            for c in text)
        by = {}
        for path, value in {**self.files, **self.links}.items():
            directory, _, own = path.rpartition("/")
            by.setdefault(directory, []).append((own, path, value))
        lines = ["kist-machine 1", "# made by tests/machines/make.py"]
        for directory in sorted(by):
            lines.append(keep(directory, "/"))
            for own, path, value in sorted(by[directory]):
                if path in self.links:
                    lines.append(f"{keep(own, '')} > {keep(value, '/')}")
                elif value.endswith(b"\n") and value.isascii() and value.decode()[:-1].replace("\n", "").isprintable():
                    text = value.decode()[:-1].replace("%", "%25").replace("\n", "%0A")
                    lines.append(f"{keep(own, '')} = {text}")
                else:
                    lines.append(f"{keep(own, '')} : {value.hex()}")
        lines.append(f"end {len(self.files) + len(self.links)}")
        (HERE / f"{name}.machine").write_text("\n".join(lines) + "\n")

    # PCI -------------------------------------------------------------------------------------------------------

    def function(self, place, node, now=None, most=None, ids=(0x8086, 0x2030), driver="pcieport", errors=(0, 0, 0)):
        """now, most: (GT/s, lanes)."""
        for which, link in (("current", now), ("max", most)):
            if link:
                self.text(f"{place}/{which}_link_speed", f"{link[0]} GT/s PCIe")
                self.text(f"{place}/{which}_link_width", link[1])
        self.text(f"{place}/numa_node", node)
        self.text(f"{place}/vendor", f"0x{ids[0]:04x}")
        self.text(f"{place}/device", f"0x{ids[1]:04x}")
        self.link(f"{place}/driver", f"/sys/bus/pci/drivers/{driver}")
        self.text(f"/sys/bus/pci/drivers/{driver}/module", driver)
        for name, count in zip(("correctable", "nonfatal", "fatal"), errors):
            word = {"correctable": "COR", "nonfatal": "NONFATAL", "fatal": "FATAL"}[name]
            self.text(f"{place}/aer_dev_{name}", f"RxErr {count}\nTOTAL_ERR_{word} {count}")

    def network(self, name, place, node, megabits, mtu=9000):
        self.function(place, node, ("16.0", 16), ("16.0", 16), (0x15b3, 0x101d), "mlx5_core")
        self.link(f"/sys/class/net/{name}", f"../..{place.removeprefix('/sys')}/net/{name}")
        self.link(f"{place}/net/{name}/device", "../../../" + place.rpartition("/")[2])
        self.text(f"{place}/net/{name}/speed", megabits)
        self.text(f"{place}/net/{name}/mtu", mtu)

    # SAS -------------------------------------------------------------------------------------------------------

    def host(self, pci, number, driver="mpt3sas", board="HBA 9400-8e", firmware="24.00.00.00", sas=True):
        place = f"{pci}/host{number}"
        own = f"{place}/scsi_host/host{number}"
        self.class_link("scsi_host", f"host{number}", own)
        self.text(f"{own}/proc_name", driver)
        self.text(f"{own}/board_name", board)
        self.text(f"{own}/version_fw", firmware)
        if sas:
            self.class_link("sas_host", f"host{number}", f"{place}/sas_host/host{number}")
            self.link(f"{place}/sas_host/host{number}/device", f"../../../host{number}")
        return place

    def phy(self, owner, name, number, now, most, counters=(0, 0, 0, 0)):
        own = f"{owner}/{name}/sas_phy/{name}"
        self.class_link("sas_phy", name, own)
        self.text(f"{own}/negotiated_linkrate", GBIT[now])
        self.text(f"{own}/maximum_linkrate", GBIT[most])
        self.text(f"{own}/maximum_linkrate_hw", GBIT[most])
        self.text(f"{own}/minimum_linkrate", "3.0 Gbit")
        self.text(f"{own}/phy_identifier", number)
        for file, count in zip(("invalid_dword_count", "running_disparity_error_count", "loss_of_dword_sync_count",
                                "phy_reset_problem_count"), counters):
            self.text(f"{own}/{file}", count)

    def port(self, owner, name, phys):
        place = f"{owner}/{name}"
        self.class_link("sas_port", name, f"{place}/sas_port/{name}")
        self.link(f"{place}/sas_port/{name}/device", f"../../../{name}")
        self.text(f"{place}/sas_port/{name}/num_phys", len(phys))
        for phy in phys:
            self.link(f"{place}/{phy}", f"../{phy}")
        return place

    def expander(self, port, name, vendor, product, address):
        place = f"{port}/{name}"
        own = f"{place}/sas_expander/{name}"
        self.class_link("sas_expander", name, own)
        self.class_link("sas_device", name, f"{place}/sas_device/{name}")
        for file, value in (("vendor_id", vendor), ("product_id", product), ("product_rev", "0D09"), ("level", 1)):
            self.text(f"{own}/{file}", value)
        self.text(f"{place}/sas_device/{name}/sas_address", f"0x{address:016x}")
        self.text(f"{place}/sas_device/{name}/device_type", "edge expander")
        return place

    def end_device(self, port, name, address, enclosure=0, bay=None):
        place = f"{port}/{name}"
        own = f"{place}/sas_device/{name}"
        self.class_link("sas_device", name, own)
        self.text(f"{own}/sas_address", f"0x{address:016x}")
        self.text(f"{own}/device_type", "end device")
        self.text(f"{own}/enclosure_identifier", f"0x{enclosure:016x}")
        if bay is not None:
            self.text(f"{own}/bay_identifier", bay)
        return place

    # SCSI devices ------------------------------------------------------------------------------------------------

    def scsi(self, above, hctl, kind, vendor, model, rev, serial=None, naa=None, port=None, wwid=None):
        host, channel, target, _ = hctl.split(":")
        place = f"{above}/target{host}:{channel}:{target}/{hctl}"
        self.class_link("scsi_device", hctl, f"{place}/scsi_device/{hctl}")
        self.link(f"{place}/scsi_device/{hctl}/device", f"../../../{hctl}")
        for file, value in (("type", kind), ("vendor", f"{vendor:8}"), ("model", f"{model:16}"), ("rev", rev),
                            ("state", "running"), ("ioerr_cnt", "0x0")):
            self.text(f"{place}/{file}", value)
        self.text(f"{place}/scsi_generic/sg{self.generic}/dev", f"21:{self.generic}")
        self.generic += 1
        if serial:
            text = serial.encode()
            self.bytes(f"{place}/vpd_pg80", struct.pack(">BBH", kind, 0x80, len(text)) + text)
        if naa:
            one = struct.pack(">BBBBQ", 0x01, 0x03, 0, 8, naa)
            if port:
                one += struct.pack(">BBBBQ", 0x61, 0x93, 0, 8, port)
            self.bytes(f"{place}/vpd_pg83", struct.pack(">BBH", kind, 0x83, len(one)) + one)
            self.text(f"{place}/wwid", wwid or f"naa.{naa:016x}")
        return place

    def block(self, device, sectors, rotational=1, name=None):
        name = name or "sd" + letters(self.letters)
        self.letters += 1
        own = f"{device}/block/{name}"
        self.link(f"/sys/block/{name}", f"..{own.removeprefix('/sys')}")
        self.text(f"{own}/size", sectors)
        self.text(f"{own}/queue/rotational", rotational)
        self.text(f"{own}/queue/logical_block_size", 512)
        return name

    def multipath(self, number, name, naa, blocks):
        own = f"/sys/devices/virtual/block/dm-{number}"
        self.link(f"/sys/block/dm-{number}", f"../devices/virtual/block/dm-{number}")
        self.text(f"{own}/dm/name", name)
        self.text(f"{own}/dm/uuid", f"mpath-3{naa:016x}")
        self.text(f"{own}/size", 1)
        for block in blocks:
            self.link(f"{own}/slaves/{block}", f"../../../../../block/{block}")

    def kernel_enclosure(self, device, hctl, identifier, slots):
        """slots: (number, name, status, fault, place of the device or None)."""
        own = f"{device}/enclosure/{hctl}"
        self.class_link("enclosure", hctl, own)
        self.text(f"{own}/components", len(slots))
        self.text(f"{own}/id", f"0x{identifier:x}")
        for number, name, status, fault, linked in slots:
            slot = f"{own}/{name}"
            for file, value in (("slot", number), ("status", status), ("fault", fault), ("locate", 0), ("active", 0),
                                ("type", "array device"), ("power_status", "on")):
                self.text(f"{slot}/{file}", value)
            if linked:
                self.link(f"{slot}/device", linked)
                self.link(f"{linked}/enclosure_device:{name}", slot)


def letters(number):
    text = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(97 + rest) + text
    return text


# SES (SES-3, clause 6) -------------------------------------------------------------------------------------------

def page(code, flags, body, generation=1):
    return struct.pack(">BBHI", code, flags, len(body) + 4, generation) + body


class Ses:
    """Slots, fans, supplies, temperatures, an expander."""

    def __init__(self, identifier, vendor, product, rev, slots, fans=5, supplies=2, temperatures=4, address=0):
        # slots: (name, number, status 4 bytes, [(attached, address, sata)])
        self.identifier, self.product, self.slots, self.address = identifier, (vendor, product, rev), slots, address
        ok = bytes([1, 0, 0, 0])
        self.types = [
            (0x17, [(name, status) for name, _, status, _ in slots], "Array slots"),
            (0x02, [(f"PSU {n}", bytes([1, 0, 0, 0x20])) for n in range(supplies)], "Power supplies"),
            (0x03, [(f"Fan {n}", bytes([1, 2, 0x58, 0x25])) for n in range(fans)], "Fans"),
            (0x04, [(f"Temp {n}", bytes([1, 0, 20 + 28 + n, 0])) for n in range(temperatures)], "Temperatures"),
            (0x18, [("Expander", ok)], "SAS expander"),
        ]

    def pages(self):
        vendor, product, rev = self.product
        text = lambda value, width: value.encode().ljust(width)
        config = struct.pack(">BBBBQ", 0x11, 0, len(self.types), 36, self.identifier)
        config += text(vendor, 8) + text(product, 16) + text(rev, 4)
        config += b"".join(struct.pack(">BBBB", kind, len(all), 0, len(name)) for kind, all, name in self.types)
        config += b"".join(name.encode() for _, _, name in self.types)
        status, threshold, names = b"", b"", b""
        for kind, all, _ in self.types:
            status += bytes([1, 0, 0, 0]) + b"".join(one for _, one in all)
            limits = bytes([75, 70, 25, 20]) if kind == 0x04 else bytes(4)
            threshold += bytes(4) + limits * len(all)
            names += struct.pack(">HH", 0, 0)
            names += b"".join(struct.pack(">HH", 0, len(name)) + name.encode() for name, _ in all)
        more, index = b"", 1
        for _, number, _, phys in self.slots:
            own = struct.pack(">BBBB", len(phys), 1, 0, number)
            for at, (attached, address, sata) in enumerate(phys):
                own += struct.pack(">BBBBQQB7x", 0x10, 0, 0, 1 if sata else 8, attached, address, at)
            more += struct.pack(">BBBB", 0x16, len(own) + 2, 1, index) + own
            index += 1
        index += sum(len(all) + 1 for _, all, _ in self.types[1:-1]) + 1
        own = struct.pack(">BBBBQ", 2, 0x40, 0, 0, self.address) + bytes([0xff, 1, 0xff, 2])
        more += struct.pack(">BBBB", 0x16, len(own) + 2, 1, index) + own
        critical = any(one[0] & 15 == 2 for _, all, _ in self.types for _, one in all)
        return {1: page(1, 0, config), 2: page(2, 2 if critical else 0, status), 5: page(5, 0, threshold),
                7: page(7, 0, names), 10: page(10, 0, more)}

    def answer(self, tree, hctl):
        for code, value in self.pages().items():
            tree.bytes(f"/answers/scsi/{hctl}/ses-{code:02x}", value)


OK, EMPTY = bytes([1, 0, 0, 0]), bytes([5, 0, 0, 0])
FAULT, ABSENT = bytes([0x42, 0, 0, 0x40]), None

# Log pages (SPC-5, 7.3) --------------------------------------------------------------------------------------------


def log(code, parameters):
    body = b"".join(struct.pack(">HBB", number, 3, len(value)) + value for number, value in parameters)
    return struct.pack(">BBH", code, 0, len(body)) + body


def disk_answers(tree, hctl, address, attached, celsius=34, uncorrected=0, expects=0, defects=0, hours=21_000, worn=None,
                 rate=0xb, invalid=0, phys=None):
    counter = lambda value: struct.pack(">Q", value)
    errors = lambda value: [(0, counter(0)), (3, counter(12)), (5, counter(4_000_000_000_000)), (6, counter(value))]
    pages = {
        0x02: errors(0), 0x03: errors(uncorrected), 0x05: errors(0), 0x06: [(0, counter(3))],
        0x0d: [(0, bytes([0, celsius])), (1, bytes([0, 60]))],
        0x0e: [(3, struct.pack(">I", 50_000)), (4, struct.pack(">I", 61))],
        0x15: [(0, struct.pack(">IBBHHHI", hours * 60, 0, 3, 140, 0, 0, 0))[:2]]
              + [(n + 1, bytes(20)) for n in range(defects)],
        0x2f: [(0, bytes([0x5d if expects else 0, 0x10 if expects else 0, celsius, 0]))],
    }
    if worn is not None:
        pages[0x11] = [(1, bytes([0, 0, 0, worn]))]
    ports = []
    for number, (own, other) in enumerate(phys or [(address, attached)]):
        phy = struct.pack(">BBBBQQB7xIIII4x", 0x20, rate, 0x0e, 0, own, other, 4, invalid, 0, 0, 0)
        phy = struct.pack(">BBBB", 0, number, 0, len(phy)) + phy
        ports.append((number + 1, struct.pack(">BBBB", 6, 0, 0, 1) + phy))
    pages[0x18] = ports
    for code, parameters in pages.items():
        tree.bytes(f"/answers/scsi/{hctl}/log-{code:02x}", log(code, parameters))


def whole(body):
    body = body.ljust(511, b"\0")
    return body + bytes([-sum(body) % 256])


def smart(tree, hctl, attributes, thresholds):
    """attributes: (id, value, raw)."""
    body = b"\x10\0" + b"".join(struct.pack("<BHBB", number, 0x33 if number in (5, 10) else 0x32, value, value)
                                + raw.to_bytes(6, "little") + b"\0" for number, value, raw in attributes)
    tree.bytes(f"/answers/scsi/{hctl}/ata-smart", whole(body))
    body = b"\x10\0" + b"".join(bytes([number, limit]) + bytes(10) for number, limit in thresholds)
    tree.bytes(f"/answers/scsi/{hctl}/ata-thresholds", whole(body))


def nvme_smart(celsius=38, warning=0, spare=100, used=4, hours=9_000, media=0):
    body = bytearray(512)
    struct.pack_into("<BHBBB", body, 0, warning, celsius + 273, spare, 10, used)
    for at, value in ((32, 10**9), (48, 10**9), (112, 40), (128, hours), (144, 12), (160, media), (176, media)):
        body[at:at + 16] = value.to_bytes(16, "little")
    return bytes(body)


# Parts of machines ---------------------------------------------------------------------------------------------------

SECTORS_16TB = 31_251_759_104


class Shelf:
    """An enclosure of two layers of expanders on one port of a host."""

    def __init__(self, tree, host, number, lanes, rate, base, vendor, product, groups, trunk, first_phy=0, down=()):
        """groups: how many slots each secondary expander has; trunk: lanes to each of them; down: phys that are down."""
        self.tree, self.host, self.number, self.groups, self.rate = tree, host, number, groups, rate
        self.vendor, self.product, self.base = vendor, product, base
        for phy in range(first_phy, first_phy + lanes):
            tree.phy(host, f"phy-{number}:{phy}", phy, 0 if phy in down else rate, rate)
        port = tree.port(host, f"port-{number}:0", [f"phy-{number}:{p}" for p in range(first_phy, first_phy + lanes)
                                                    if p not in down])
        self.primary = tree.expander(port, f"expander-{number}:0", vendor, product, base + 0x3f)
        self.phys, self.ports, self.targets = 0, 0, 0
        self.secondary = []
        if groups == 1:
            self.secondary = [(self.primary, f"{number}:0")]
            return
        for group in range(groups):
            own = []
            for lane in range(trunk):
                name = f"phy-{number}:0:{self.phys}"
                tree.phy(self.primary, name, self.phys, rate, rate)
                own.append(name)
                self.phys += 1
            port = tree.port(self.primary, f"port-{number}:0:{group}", own)
            name = f"{number}:{group + 1}"
            place = tree.expander(port, f"expander-{name}", vendor, product + f" {group}", base + 0x7f + group * 0x40)
            self.secondary.append((place, name))

    def device(self, group, phy, address, rate, bay=None, counters=(0, 0, 0, 0)):
        """The end device on a phy of a secondary expander: its place and its SCSI address."""
        place, name = self.secondary[group]
        self.tree.phy(place, f"phy-{name}:{phy}", phy, rate, self.rate, counters)
        port = self.tree.port(place, f"port-{name}:{phy}", [f"phy-{name}:{phy}"])
        end = self.tree.end_device(port, f"end_device-{name}:{phy}", address, self.base if bay is not None else 0, bay)
        hctl = f"{self.number}:0:{self.targets}:0"
        self.targets += 1
        return end, hctl


def naa(number):
    return 0x5000c500a1000003 + number * 0x100


def me484(name, paths, seconds=1_790_000_000):
    tree = Tree("jbod-1" if paths == 1 else "jbod-2", seconds=seconds, nodes=2)
    base = 0x500c0ff012345600
    disks = {}
    shelves = []
    for path in range(paths):
        bus = (0x17, 0xb2)[path]
        root = f"/sys/devices/pci0000:{bus:02x}/0000:{bus:02x}:00.0"
        tree.function(root, path, ("8.0", 8), ("8.0", 16))
        pci = f"{root}/0000:{bus + 1:02x}:00.0"
        tree.function(pci, path, ("8.0", 8), ("8.0", 8), (0x1000, 0x00af), "mpt3sas")
        host = tree.host(pci, 7 + path)
        shelf = Shelf(tree, host, 7 + path, 4, 12, base + path * 0x1000, "DellEMC", "Array584EMM", 2, 8)
        shelves.append((shelf, {}))
    for bay in range(80):
        for path, (shelf, places) in enumerate(shelves):
            if bay == 17 and path == 1:
                continue  # a path that is lost
            address = naa(bay) - 2 + path
            errors = (5, 0, 1, 0) if bay == 3 else (0, 0, 0, 0)
            end, hctl = shelf.device(bay // 42, bay % 42, address, 12, bay, errors)
            serial = f"ZL2{bay:05d}"
            model = "ST16000NM002G"
            place = tree.scsi(end, hctl, 0, "SEAGATE", model, "E004", serial, naa(bay), address)
            block = tree.block(place, SECTORS_16TB)
            places[bay] = place
            disks.setdefault(bay, []).append((hctl, block, address, shelf.base + 0x7f + (bay // 42) * 0x40))
    for bay, own in disks.items():
        hctl, _, address, attached = own[0]
        disk_answers(tree, hctl, address, attached, celsius={9: 57, 10: 61}.get(bay, 34),
                     uncorrected=2 if bay == 5 else 0, expects=bay == 12, defects=3 if bay == 20 else 0,
                     phys=[(address, attached) for _, _, address, attached in own])
        if paths > 1:
            tree.multipath(bay, f"mpath{letters(bay)}", naa(bay), [block for _, block, _, _ in own])
    for path, (shelf, places) in enumerate(shelves):
        slots = []
        kernel = []
        for bay in range(84):
            status = EMPTY if bay not in disks else FAULT if bay == 30 else OK
            attached = base + path * 0x1000 + 0x7f + (bay // 42) * 0x40
            phys = [(attached, naa(bay) - 2 + path, False)] if bay in places else []
            slots.append((f"SLOT {bay:02d}", bay, status, phys))
            words = {OK: "OK", EMPTY: "not installed", FAULT: "critical"}[status]
            kernel.append((bay, f"SLOT {bay:02d}", words, 4 if status == FAULT else 0, places.get(bay)))
        end, hctl = shelf.device(1, 60, base + path * 0x1000 + 0x3e, 12)
        place = tree.scsi(end, hctl, 13, "DellEMC", "Array584EMM", "2071", naa=base + 0x3d)
        tree.kernel_enclosure(place, hctl, base, kernel)
        ses = Ses(base, "DellEMC", "Array584EMM", "2071", slots, address=base + path * 0x1000 + 0x3f)
        ses.types[2][1][3] = ("Fan 3", bytes([2, 0, 0, 0x60]))  # a fan that has failed
        ses.answer(tree, hctl)
    tree.network("ens3", "/sys/devices/pci0000:b2/0000:b2:02.0/0000:b5:00.0", paths - 1, 100_000)
    tree.function("/sys/devices/pci0000:b2/0000:b2:02.0", paths - 1, ("16.0", 16), ("16.0", 16))
    tree.write(name)
    return ses


def data60():
    """Two hosts share the enclosure by zoning: this one sees 30 of its 60 disks, on two cables."""
    tree = Tree("jbod-3", nodes=1)
    base = 0x5000ccab05001200
    root = "/sys/devices/pci0000:3a/0000:3a:00.0"
    tree.function(root, 0, ("8.0", 8), ("8.0", 8))
    pci = f"{root}/0000:3b:00.0"
    tree.function(pci, 0, ("8.0", 8), ("8.0", 8), (0x1000, 0x00ac), "mpt3sas")
    host = tree.host(pci, 2, board="SAS9400-16e")
    shelf = Shelf(tree, host, 2, 8, 12, base, "HGST", "H4060-J", 2, 10)
    for phy in range(8, 16):
        tree.phy(host, f"phy-2:{phy}", phy, 0, 12)  # connectors without a cable
    places, slots = {}, []
    for bay in range(60):
        address = 0x5000cca2c1000001 + bay * 4
        if bay % 2 == 0:
            end, hctl = shelf.device(bay // 30, 10 + bay % 30, address, 12, bay)
            place = tree.scsi(end, hctl, 0, "HGST", "HUH721010AL5200", "A21D", f"7JK{bay:05d}", address - 1, address)
            tree.block(place, 19_532_873_728)
            places[bay] = place
            disk_answers(tree, hctl, address, base + 0x7f)
        slots.append((f"SLOT {bay:02d}{' ' * 6}", bay, OK, [(base + 0x7f, address, False)]))
    end, hctl = shelf.device(0, 45, base + 0x3e, 12)
    place = tree.scsi(end, hctl, 13, "HGST", "H4060-J", "2033", naa=base + 0x3d)
    kernel = [(bay, f"SLOT {bay:02d}{' ' * 6}", "OK", 0, places.get(bay)) for bay in range(60)]
    tree.kernel_enclosure(place, hctl, base, kernel)
    Ses(base, "HGST", "H4060-J", "2033", slots, address=base + 0x3f).answer(tree, hctl)
    tree.write("data60-zoned")


def nvme():
    tree = Tree("flash-1", kernel="6.8.0-45-generic", nodes=2)
    root = "/sys/devices/pci0000:c0/0000:c0:01.1"
    tree.function(root, 1, ("16.0", 16), ("32.0", 16), (0x1022, 0x14ab))
    up = f"{root}/0000:c1:00.0"
    tree.function(up, 1, ("16.0", 16), ("16.0", 16), (0x11f8, 0x4052))
    for drive in range(8):
        down = f"{up}/0000:c2:{drive:02x}.0"
        lanes = 2 if drive == 6 else 4
        tree.function(down, 1, ("16.0", lanes), ("16.0", 4), (0x11f8, 0x4052))
        pci = f"{down}/0000:{0xc3 + drive:02x}:00.0"
        tree.function(pci, 1, ("16.0", lanes), ("16.0", 4), (0x144d, 0xa80a), "nvme", (3 if drive == 6 else 0, 0, 0))
        own = f"{pci}/nvme/nvme{drive}"
        tree.class_link("nvme", f"nvme{drive}", own)
        for file, value in (("model", "SAMSUNG MZWLR7T6HBLA-00007"), ("serial", f"S6EYNE0R9{drive:05d}     "),
                            ("firmware_rev", "MPP92B5Q"), ("state", "live"), ("transport", "pcie")):
            tree.text(f"{own}/{file}", value)
        block = f"{own}/nvme{drive}n1"
        tree.link(f"/sys/block/nvme{drive}n1", f"..{block.removeprefix('/sys')}")
        tree.text(f"{block}/size", 15_002_931_888)
        tree.text(f"{block}/queue/rotational", 0)
        tree.text(f"{block}/queue/logical_block_size", 512)
        tree.text(f"{block}/wwid", f"eui.36455930529{drive:05d}0025384500000001")
        tree.text(f"{own}/hwmon{drive}/temp1_input", 38_850)
        page = nvme_smart(warning=4, media=2) if drive == 3 else nvme_smart(used=94) if drive == 4 else nvme_smart()
        tree.bytes(f"/answers/nvme/nvme{drive}/log-02", page)
    tree.network("enp65s0", "/sys/devices/pci0000:40/0000:40:01.1/0000:41:00.0", 0, 200_000)
    tree.function("/sys/devices/pci0000:40/0000:40:01.1", 0, ("16.0", 16), ("32.0", 16))
    tree.write("nvme-switch")


def half_cable(name, seconds, later):
    """A cable of which two of four lanes are down; SATA disks beside SAS ones; and the same an hour later."""
    tree = Tree("jbod-4", seconds=seconds, nodes=1)
    base = 0x500304801f2a3b00
    root = "/sys/devices/pci0000:00/0000:00:01.0"
    tree.function(root, -1, ("8.0", 8), ("16.0", 16))
    pci = f"{root}/0000:01:00.0"
    tree.function(pci, -1, ("8.0", 8), ("8.0", 8), (0x1000, 0x0097), "mpt3sas", (7 if later else 2, 0, 0))
    host = tree.host(pci, 0, board="LSI3008-IT", firmware="16.00.12.00")
    shelf = Shelf(tree, host, 0, 4, 12, base, "LSI", "SAS3x28", 1, 0, down=(2, 3))
    for phy in range(4, 8):
        tree.phy(host, f"phy-0:{phy}", phy, 0, 12)
    if later:
        tree.phy(host, "phy-0:0", 0, 12, 12, (4_000, 3_900, 1, 0))
    slots, kernel = [], []
    for bay in range(12):
        sata = bay >= 10
        address = base + bay if sata else naa(500 + bay) - 2
        if bay == 11 and later:
            slots.append((f"Slot{bay:02d}", bay, EMPTY, []))
            kernel.append((bay, f"Slot{bay:02d}", "not installed", 0, None))
            continue
        end, hctl = shelf.device(0, bay, address, 6 if sata or bay == 7 else 12, None,
                                 (900, 850, 2, 0) if bay == 2 and later else (100, 90, 0, 0) if bay == 2 else (0,) * 4)
        if sata:
            place = tree.scsi(end, hctl, 0, "ATA", "ST8000NM0055-1RM", "SN05", f"ZA1{bay:05d}", naa(600 + bay))
            smart(tree, hctl, [(5, 100, 0), (9, 80, 17_500), (187, 100, 0), (194, 33, 33), (197, 100, 8), (199, 200, 0)]
                  if bay == 10 else [(5, 9, 3_000), (194, 33, 33)], [(5, 10), (9, 0), (187, 0), (194, 0), (197, 0)])
        else:
            place = tree.scsi(end, hctl, 0, "SEAGATE", "ST8000NM001A", "E002", f"WKD{bay:05d}", naa(500 + bay), address)
            disk_answers(tree, hctl, address, base + 0x3f, uncorrected=4 if bay == 5 and later else 1 if bay == 5 else 0,
                         defects=2 if bay == 6 and later else 1 if bay == 6 else 0, rate=0xa if bay == 7 else 0xb)
        tree.block(place, 15_628_053_168)
        slots.append((f"Slot{bay:02d}", bay, OK, [(base + 0x3f, address, sata)]))
        kernel.append((bay, f"Slot{bay:02d}", "OK", 0, place))
    end, hctl = shelf.device(0, 27, base + 0x3d, 12)
    place = tree.scsi(end, hctl, 13, "LSI", "SAS3x28", "0705", naa=base + 0x3d)
    tree.kernel_enclosure(place, hctl, base, kernel)
    Ses(base, "LSI", "SAS3x28", "0705", slots, fans=3, temperatures=1, address=base + 0x3f).answer(tree, hctl)
    tree.write(name)


def mpi3mr():
    """24G behind a driver that shows no SAS objects, and no `ses` driver: only what the devices say themselves."""
    tree = Tree("jbod-5", kernel="5.15.0-generic", nodes=1)
    base = 0x500605b00abc1200
    root = "/sys/devices/pci0000:e0/0000:e0:03.1"
    tree.function(root, 0, ("16.0", 8), ("16.0", 16), (0x1022, 0x1483))
    pci = f"{root}/0000:e1:00.0"
    tree.function(pci, 0, ("16.0", 8), ("16.0", 16), (0x1000, 0x00a5), "mpi3mr")
    host = tree.host(pci, 8, driver="mpi3mr", board="9600-16e", firmware="8.8.1.0", sas=False)
    slots = []
    for bay in range(24):
        address = 0x58ce38ee20000001 + bay * 16
        if bay < 12:
            hctl = f"8:0:{bay}:0"
            place = tree.scsi(host, hctl, 0, "KIOXIA", "KPM7XRUG3T84", "0104", f"X2A0A{bay:04d}", address - 1, address)
            tree.block(place, 7_501_476_528, 0)
            disk_answers(tree, hctl, address, base + 0x3f, rate=0xc, worn=101 if bay == 4 else 2)
            slots.append((f"Bay {bay}", bay, OK, [(base + 0x3f, address, False)]))
        else:
            slots.append((f"Bay {bay}", bay, EMPTY, []))
    place = tree.scsi(host, "8:0:40:0", 13, "BROADCOM", "JBOD24G", "0001", naa=base + 0x3d)
    Ses(base, "BROADCOM", "JBOD24G", "0001", slots, address=base + 0x3f).answer(tree, "8:0:40:0")
    tree.write("mpi3mr-24g")


def kisti():
    """The five adapters of KISTI's table, each with 28 disks that nobody has asked how they are."""
    tree = Tree("kisti-table", kernel="5.4.0", nodes=1)
    for row, (lanes, rate, transfers) in enumerate(
            ((4, 6, "5.0"), (8, 6, "5.0"), (4, 12, "5.0"), (4, 12, "8.0"), (8, 12, "8.0"))):
        root = f"/sys/devices/pci0000:{row * 16:02x}/0000:{row * 16:02x}:00.0"
        tree.function(root, 0, (transfers, 8), (transfers, 8))
        pci = f"{root}/0000:{row * 16 + 1:02x}:00.0"
        tree.function(pci, 0, (transfers, 8), (transfers, 8), (0x1000, 0x0097), "mpt3sas")
        host = tree.host(pci, row)
        shelf = Shelf(tree, host, row, lanes, rate, 0x5001438000000000 + (row << 16), "KISTI", "JBOD", 1, 0)
        for bay in range(28):
            number = 1000 + row * 28 + bay
            end, hctl = shelf.device(0, bay, naa(number) - 2, rate)
            place = tree.scsi(end, hctl, 0, "SEAGATE", "ST12000NM0027", "E004", f"K{number:07d}", naa(number))
            tree.block(place, 23_437_770_752)
    tree.write("kisti-five")


def virtio():
    """A virtual machine: one disk of virtio, loops, compressed memory, no SCSI."""
    tree = Tree("vm-1", nodes=1)
    tree.function("/sys/devices/pci0000:00/0000:00:02.0", -1, ids=(0x1af4, 0x1042), driver="virtio-pci")
    own = "/sys/devices/pci0000:00/0000:00:02.0/virtio1/block/vda"
    tree.link("/sys/block/vda", f"..{own.removeprefix('/sys')}")
    tree.text(f"{own}/size", 536_870_912)
    tree.text(f"{own}/serial", "overlayblk1")
    tree.text(f"{own}/queue/rotational", 0)
    tree.text(f"{own}/queue/logical_block_size", 512)
    for name in ("loop0", "zram0"):
        own = f"/sys/devices/virtual/block/{name}"
        tree.link(f"/sys/block/{name}", f"../devices/virtual/block/{name}")
        tree.text(f"{own}/size", 0)
    tree.write("virtio")


if __name__ == "__main__":
    import sys
    ses = me484("me484-one-path", 1)
    me484("me484-two-path", 2)
    data60()
    nvme()
    half_cable("half-cable", 1_790_000_000, False)
    half_cable("half-cable-later", 1_790_003_600, True)
    mpi3mr()
    kisti()
    virtio()
    if len(sys.argv) > 1:  # for sg_ses --inhex
        for code, value in ses.pages().items():
            pathlib.Path(sys.argv[1], f"ses-{code:02x}.hex").write_text(value.hex(" ") + "\n")
