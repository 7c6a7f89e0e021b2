// The lanes of an open file come back, whatever happens to who holds them: `make -C xrootd check`.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <new>
#include <thread>
#include <vector>

#include "../src/KistLanes.hh"

using namespace kist;

static void demand(bool so, const char *what) {
    if (so) return;
    fprintf(stderr, "lanes: not so: %s\n", what);
    exit(1);
}

// As a reader that runs out of memory: at once, or once its connection is open.
static void fail(Lanes &lanes, bool is_open) {
    try {
        Lanes::Held lane = lanes.take(7);
        if (is_open) lane->reader.reset(new Reader);
        throw std::bad_alloc();
    } catch (const std::bad_alloc &) {}
}

int main() {
    alarm(60);  // Who waits for a lane for ever ends here.
    Lanes lanes;
    for (size_t n = 0; n < 3 * READERS_MAX; n++) fail(lanes, n % 2);
    demand(lanes.take_all().empty(), "what was interrupted is not used again");
    {
        std::vector<Lanes::Held> all;
        all.reserve(READERS_MAX);
        for (size_t n = 0; n < READERS_MAX; n++) all.push_back(lanes.take(7));
        for (auto &lane : all) lane->reader.reset(new Reader);
        // One more waits until one comes back.
        std::thread waits([&] { lanes.take(7)->next = 100; });
        all.pop_back();
        waits.join();
    }
    demand(lanes.take(100)->next == 100, "one that reads on comes before others");
    {
        Lanes::Held lane = lanes.take(100);
        demand(static_cast<bool>(lane->reader), "its connection is there still");
    }
    demand(lanes.take_all().size() == READERS_MAX, "all of them are back");
    return 0;
}
