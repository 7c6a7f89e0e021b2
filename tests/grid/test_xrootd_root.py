"""uproot reads a TTree over root://, by vector reads, also with two pool drives lost."""

import shutil

from test_xrootd import long
from world import Place, equal

ENTRIES = 400_000


@long
def test_a_tree_by_vector_reads_and_with_two_drives_lost():
    try:
        import numpy  # pylint: disable=import-outside-toplevel,import-error
        import uproot  # pylint: disable=import-outside-toplevel,import-error
    except ImportError as error:
        from main import Skipped  # pylint: disable=import-outside-toplevel

        raise Skipped("uproot is missing: tests/grid/run without --quick installs it") from error
    random = numpy.random.default_rng(1)
    wanted = {
        "pt": random.random(ENTRIES, dtype=numpy.float32),
        "energy": random.random(ENTRIES),
        "id": numpy.arange(ENTRIES, dtype=numpy.int32),
    }
    with Place() as place:
        local = place.at / "tree.root"
        with uproot.recreate(local, compression=None) as file:
            tree = file.mktree("events", {name: values.dtype for name, values in wanted.items()})
            for at in range(0, ENTRIES, 20_000):
                tree.extend({name: values[at : at + 20_000] for name, values in wanted.items()})
        place.xrdcp(local, place.url("/open/tree.root")).exits()

        def read(entries, names):
            with uproot.open(place.url("/open/tree.root")) as file:
                found = file["events"].arrays(names, entry_start=entries[0], entry_stop=entries[1], library="np")
            for name in names:
                equal(bool((found[name] == wanted[name][entries[0] : entries[1]]).all()), True, f"{name} of {entries}")

        read((0, ENTRIES), list(wanted))
        read((123_456, 234_567), ["pt", "id"])
        pool = place.kist.directory / "pool"
        for number in range(2):
            shutil.move(pool / f"d{number}", pool / f"d{number}-away")
        read((0, ENTRIES), list(wanted))
        read((300_001, 300_100), ["energy"])
        place.xrootd.lives()
