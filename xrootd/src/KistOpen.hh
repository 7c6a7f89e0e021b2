// Who has which path open, and what a thread has found out about the next open.
//
// XRootD gives every client that opens a path the same open file while one is open, without asking the storage again
// (XrdOfsHandle::Alloc). What the next client may, is therefore asked in Access(), which comes first on the same
// thread, and remembered until Open(). A new file is never shared.
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
    // A file was opened for reading. False: at this moment somebody is on the way who may not share it.
    bool add_reader(const std::string &path);
    void remove_reader(const std::string &path);
    // Somebody who may not open it is on the way to Open(). False: it is open, so that they would share it.
    bool add_refused(const std::string &path);
    void remove_refused(const std::string &path);
    // A new file, or an open for update, which is refused in Open(). False: there is one already.
    bool add_writer(const std::string &path);
    void remove_writer(const std::string &path);
private:
    struct Counts { int readers = 0, refused = 0, writers = 0; };
    void settle(std::map<std::string, Counts>::iterator at);
    std::mutex mutex;
    std::map<std::string, Counts> counts;
};
OpenFiles &open_files();

// What this thread has found out about the next open; it ends with the thread.
struct Pending {
    enum Kind { NONE, READ, WRITE } kind = NONE;
    std::string path;
    std::unique_ptr<Reader> reader;   // READ, if it could be opened
    Failure failure;                  // READ, if not
    std::string fifo;                 // WRITE, if another program brings the bytes
    void reset();
    // Hands over the registration of a writer: whoever takes it removes it.
    bool take_writer(const std::string &of);
    ~Pending() { reset(); }
};
Pending &pending();

}  // namespace kist
