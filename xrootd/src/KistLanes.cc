#include "KistLanes.hh"

#include <algorithm>

namespace kist {

Lanes::Held Lanes::take(uint64_t offset) {
    // What may fail comes before anything is counted.
    std::list<Lane> mine(1);
    std::unique_lock<std::mutex> held(mutex);
    while (lanes.empty() && count >= READERS_MAX) is_free.wait(held);
    if (!lanes.empty()) {
        // One that reads on, or that nobody used yet, before one that has to jump.
        auto best = std::find_if(lanes.begin(), lanes.end(), [&](Lane &lane) { return lane.next == offset; });
        bool jumps = best == lanes.end();
        if (!jumps || count >= READERS_MAX || lanes.front().next == 0 || offset != 0) {
            std::list<Lane> found;
            found.splice(found.begin(), lanes, jumps ? lanes.begin() : best);
            return Held(*this, std::move(found));
        }
    }
    count++;
    return Held(*this, std::move(mine));
}

std::list<Lanes::Lane> Lanes::take_all() {
    std::lock_guard<std::mutex> held(mutex);
    std::list<Lane> all;
    all.swap(lanes);
    count = 0;
    return all;
}

void Lanes::give(std::list<Lane> &one) noexcept {
    std::lock_guard<std::mutex> held(mutex);
    if (one.front().reader) lanes.splice(lanes.end(), one);
    else count--;
    is_free.notify_one();
}

}  // namespace kist
