// Who has which path open, and what a thread has found out about the next open.
//
// XRootD gives every client that opens a path the same open file while one is open, without asking the
// storage again (XrdOfsHandle::Alloc). What the next client may, is therefore asked in Access(), which comes
// first on the same thread, and remembered until Open(). A new file is never shared. A file that was replaced
// while it is open is shared no more: XRootD is told to forget that it is open (XrdOfsHandle::Hide), and who
// has it keeps it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "KistLink.hh"

namespace kist {

// A connection with a file open for reading in it.
struct Reader {
    std::unique_ptr<Link> link;
    Entry entry;
    // Opens. EACCES: the client may not, or nobody knows.
    static std::unique_ptr<Reader> open(const std::string &asker, const std::string &path, Failure &failure);
    // Closes it at Kist's side, and the connection may be used again.
    static void close(std::unique_ptr<Reader> reader);
};

class OpenFiles {
public:
    // A moment, taken before Kist is asked which file a path is: of two answers that of the later one counts.
    uint64_t moment() { return ++moments; }
    // Somebody who has found this file under the path is on the way to Open(). True: what was opened last is
    // another file, which they must not come to share.
    bool arrive(const std::string &path, uint64_t file, uint64_t moment);
    void leave(const std::string &path);
    // A file was opened for reading.
    enum Added {
        OPENED,
        BUSY,     // not: at this moment somebody is on the way who may not share it
        REPLACED  // not: somebody is on the way who has found another file later
    };
    Added add_reader(const std::string &path, uint64_t file, uint64_t moment);
    void remove_reader(const std::string &path);
    // Somebody who may not open it is on the way to Open(). False: it is open, so that they would share it.
    bool add_refused(const std::string &path);
    void remove_refused(const std::string &path);
    // A new file, or an open for update, which is refused in Open(). Gives its number; 0: there is one
    // already.
    // `is_open`: that one is open, and not only on the way.
    uint64_t add_writer(const std::string &path, bool &is_open);
    // It was opened. False: it took so long that another took the path.
    bool keep_writer(const std::string &path, uint64_t number);
    void remove_writer(const std::string &path, uint64_t number);

private:
    using Time = std::chrono::steady_clock::time_point;
    struct Counts {
        int readers = 0, refused = 0, arriving = 0;
        uint64_t opened = 0;               // the file that was opened last, while there are readers
        uint64_t found = 0, found_at = 0;  // the file that was found last, and when, while somebody arrives
        Time refused_since, writer_since;
        uint64_t writer = 0;
        bool writer_is_open = false;
    };
    void settle(std::map<std::string, Counts>::iterator at);
    std::mutex mutex;
    std::atomic<uint64_t> moments{0};
    uint64_t last_writer = 0;
    std::map<std::string, Counts> counts;
};
OpenFiles &open_files();

// Whoever is on the way to Open() arrives within this time: XrdOfs waits a second at most for a lock. Now and
// then it gives up before Open(), or asks for something else than a file to read, and the thread does nothing
// else for long: others wait no longer than this.
constexpr std::chrono::seconds ON_THE_WAY_MAX(3);
// Of a writer: one that arrives later is told to come again, so that a shorter time is safe.
constexpr std::chrono::seconds WRITER_ON_THE_WAY_MAX(3);

// Whether the part of the plugin was loaded that asks Kist about each open: ofs.authlib. Without it nothing
// is opened.
extern std::atomic<bool> authorises;

// What this thread has found out about the next open; it ends with the thread.
struct Pending {
    enum Kind { NONE, READ, WRITE } kind = NONE;
    std::string path;
    std::unique_ptr<Reader> reader;  // READ, if it could be opened
    bool arrives = false;            // READ: OpenFiles counts it
    uint64_t moment = 0;             // READ: before it was opened
    Failure failure;                 // READ, if not
    uint64_t writer = 0;             // WRITE: its number
    std::string fifo;                // WRITE, if another program brings the bytes
    void reset();
    // Hands over the registration of a writer: whoever takes it removes it. 0: there is none.
    uint64_t take_writer(const std::string &of);
    ~Pending() { reset(); }
};
Pending &pending();

}  // namespace kist
