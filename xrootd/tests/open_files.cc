// Who may share an open file: `make -C xrootd check`.
#include <stdio.h>
#include <stdlib.h>

#include "../src/KistOpen.hh"

using namespace kist;

static void demand(bool so, const char *what) {
    if (so) return;
    fprintf(stderr, "open files: not so: %s\n", what);
    exit(1);
}

int main() {
    OpenFiles all;
    const uint64_t OLD = 7, NEW = 3;  // Numbers say nothing about what came first: files are renamed.
    // One who asked before it was replaced, and opens only after another has found the new one.
    uint64_t early = all.moment(), late = all.moment();
    demand(!all.arrive("/a", NEW, late), "nothing is open");
    demand(!all.arrive("/a", OLD, early), "nothing is open still");
    demand(all.add_reader("/a", OLD, early) == OpenFiles::REPLACED, "the old one is not opened for both");
    demand(all.add_reader("/a", NEW, all.moment()) == OpenFiles::OPENED, "but the new one is");
    demand(all.add_reader("/a", NEW, late) == OpenFiles::OPENED, "for each of them");
    all.leave("/a");
    all.leave("/a");
    demand(!all.arrive("/a", NEW, all.moment()), "the new one may be shared");
    demand(all.arrive("/a", OLD, all.moment()), "what is another file may not");
    all.leave("/a");
    all.leave("/a");
    all.remove_reader("/a");
    demand(all.arrive("/a", OLD, all.moment()), "as long as it is open");
    all.leave("/a");
    all.remove_reader("/a");
    demand(!all.arrive("/a", OLD, all.moment()), "nothing is open any more");
    all.leave("/a");
    // Who may not read it keeps others from opening it for them to share.
    demand(all.add_refused("/b"), "nothing is open");
    demand(all.add_reader("/b", OLD, all.moment()) == OpenFiles::BUSY, "not while they are on the way");
    all.remove_refused("/b");
    demand(all.add_reader("/b", OLD, all.moment()) == OpenFiles::OPENED, "but then");
    demand(!all.add_refused("/b"), "they would share it");
    return 0;
}
