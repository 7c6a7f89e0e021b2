// The connections that the readers of one open file share.
#pragma once

#include <condition_variable>
#include <exception>
#include <list>
#include <memory>
#include <mutex>

#include "KistOpen.hh"

namespace kist {

constexpr size_t READERS_MAX = 8;  // connections that clients of one open file share

class Lanes {
public:
    struct Lane {
        std::unique_ptr<Reader> reader;  // none: whoever holds it opens one
        uint64_t next = 0;               // where it reads on
    };

    // A lane that one thread uses. It is given back however that thread ends, so that others need not wait
    // for it for ever; if something was thrown meanwhile, without its connection, in which half an answer may
    // be.
    class Held {
    public:
        Held(Lanes &of, std::list<Lane> &&taken) noexcept : all(&of), one(std::move(taken)) {}
        Held(Held &&other) noexcept : all(other.all), one(std::move(other.one)) { other.all = nullptr; }
        Held &operator=(Held &&) = delete;
        ~Held() {
            if (!all) return;
            if (std::uncaught_exceptions() > thrown) one.front().reader.reset();
            all->give(one);
        }
        Lane *operator->() { return &one.front(); }

    private:
        Lanes *all;
        std::list<Lane> one;
        int thrown = std::uncaught_exceptions();
    };

    // One that reads on at `offset`, or that is free, or a new one; waits if there are too many.
    Held take(uint64_t offset);
    // Takes all that are free, to close them: nobody reads any more.
    std::list<Lane> take_all();

private:
    void give(std::list<Lane> &one) noexcept;
    std::mutex mutex;
    std::condition_variable is_free;
    std::list<Lane> lanes;  // that are free
    size_t count = 0;       // of all, free and held
};

}  // namespace kist
