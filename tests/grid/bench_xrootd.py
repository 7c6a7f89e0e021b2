"""Measures XRootD with Kist's plugins beside a stock XRootD server on a plain directory of the same tmpfs, in one run, turn
by turn: get and put of one large file and of many small ones with xrdcp. The bars are those of the issue: get of a large
file at least 0.7 of the plain directory, which verifies nothing, and small files at least 0.5.

  tests/grid/bench_xrootd.py [--json] [--large MIB] [--small COUNT] [--rounds N]"""

import argparse
import json
import os
import shutil
import statistics
import sys
import time

from world import IS_ROOT, XROOTD_USER, Place, Xrootd, random_bytes, run

SMALL_BYTES = 16_000
BARS = {"get-large": 0.7, "get-small": 0.5, "put-small": 0.5}


def timed(arguments, env):
    """Seconds that a program takes."""
    began = time.monotonic()
    run(arguments, env=env, seconds=1800).exits()
    return time.monotonic() - began


def main():
    """Runs it."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", action="store_true")
    options.add_argument("--large", type=int, default=1024)
    options.add_argument("--small", type=int, default=10_000)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    with Place() as place:
        figures = measure(place, given)
    for name, bar in BARS.items():
        figures[name]["bar"] = bar
    if given.json:
        print(json.dumps(figures, indent=1))
    else:
        print(f"{'':12}{'plain':>14}{'plugin':>14}{'ratio':>8}{'bar':>6}")
        for name, of in figures.items():
            print(f"{name:12}{of['plain']:>8.0f} {of['unit']:5}{of['plugin']:>8.0f} {of['unit']:5}{of['ratio']:>8.2f}{of.get('bar', ''):>6}")
    return 0 if all(of["ratio"] >= of.get("bar", 0) for of in figures.values()) else 1


def measure(place, given):
    """All figures."""
    data = place.at / "plain-data"
    data.mkdir()
    plain = Xrootd.plain(place.at / "plain", data)
    place.others.append(plain)
    plain.start()
    large = place.at / "large"
    with large.open("wb") as file:
        piece = random_bytes(1 << 20)
        for number in range(given.large):
            file.write(number.to_bytes(8, "little") + piece[8:])
    tree = place.at / "tree"
    for number in range(given.small):
        at = tree / f"d{number // 1000}"
        at.mkdir(parents=True, exist_ok=True)
        (at / f"f{number}").write_bytes(number.to_bytes(8, "little") + piece[8:SMALL_BYTES])
    urls = {"plain": f"{plain.url}/", "plugin": f"{place.xrootd.url}/open/"}
    taken = {(name, kind): [] for name in urls for kind in ("put-large", "get-large", "put-small", "get-small")}
    for turn in range(given.rounds):
        for name, url in urls.items():
            taken[name, "put-large"].append(timed(["xrdcp", "--nopbar", "-f", large, f"{url}l{turn}"], place.env))
        for name, url in urls.items():
            taken[name, "get-large"].append(timed(["xrdcp", "--nopbar", "-f", f"{url}l{turn}", place.at / "got"], place.env))
        for server, path in ((plain, f"/s{turn}"), (place.xrootd, f"/open/s{turn}")):
            run(["xrdfs", f"127.0.0.1:{server.port}", "mkdir", path], env=place.env).exits()
        for name, url in urls.items():
            tree_to = ["xrdcp", "--nopbar", "-r", "--parallel", "4", tree, f"{url}s{turn}/"]
            taken[name, "put-small"].append(timed(tree_to, place.env) if given.small else 1)
        for name, url in urls.items():
            back = place.at / f"back-{name}"
            shutil.rmtree(back, ignore_errors=True)
            back.mkdir()
            tree_back = ["xrdcp", "--nopbar", "-r", "--parallel", "4", f"{url}s{turn}/tree", back]
            taken[name, "get-small"].append(timed(tree_back, place.env) if given.small else 1)
            place.xrootd.lives()
        for name in ("plain", "plugin"):
            if name == "plain":
                shutil.rmtree(data / f"s{turn}", ignore_errors=True)
                (data / f"l{turn}").unlink()
            else:
                place.kist.command("rm", "-r", f"/open/s{turn}", f"/open/l{turn}")
    figures = {}
    for kind in ("get-large", "put-large", "get-small", "put-small"):
        of = {name: statistics.median(taken[name, kind]) for name in urls}
        amount, unit = (given.large * 1.048576, "MB/s") if kind.endswith("large") else (given.small, "/s")
        figures[kind] = {"unit": unit, **{name: amount / of[name] for name in urls}, "ratio": of["plain"] / of["plugin"]}
    return figures


if __name__ == "__main__":
    assert not IS_ROOT or XROOTD_USER == "xrootd"
    os.umask(0o022)
    sys.exit(main())
