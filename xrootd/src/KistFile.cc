#include "KistFile.hh"
#include "KistGuard.hh"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "XrdOuc/XrdOucEnv.hh"
#include "XrdOuc/XrdOucIOVec.hh"
#include "XrdSfs/XrdSfsAio.hh"
#include "XrdSfs/XrdSfsFlags.hh"
#include "XrdSfs/XrdSfsInterface.hh"
#include "XrdSys/XrdSysError.hh"

namespace kist {

int number(const Failure &failure) {
    // XrdOfs::Emsg answers these two with a number of seconds to wait. Its callers that read and write hand
    // that on as a number of bytes.
    if (failure.error == EBUSY || failure.error == ETIMEDOUT) return -EAGAIN;
    return -failure.error;
}

int File::fail(const char *what, const Failure &failure) {
    log().Emsg(what, path.c_str(), failure.why.c_str());
    return number(failure);
}

File::~File() { Close(); }

int File::Open(const char *name, int flags, mode_t mode, XrdOucEnv &env) {
    KIST_BEGIN
        if (state != CLOSED) return -EBADF;
        if (!is_path(name)) {
            pending().reset();
            return -EINVAL;
        }
        path = name;
        if ((flags & O_ACCMODE) == O_RDONLY && !(flags & (O_CREAT | O_TRUNC))) return open_reading(name, env);
        if (flags & (O_CREAT | O_TRUNC)) return open_writing(name, flags, mode, env);
        // What is kept is not changed: a new file may take its place.
        pending().reset();
        return -ENOTSUP;
    KIST_END
}

int File::open_reading(const char *name, XrdOucEnv &env) {
    Pending &before = pending();
    Lanes::Held lane = lanes.take(0);
    Failure failure;
    if (!authorises) {
        log().Emsg("Open", name, "'ofs.authlib' is missing in the configuration of this server");
        return -EACCES;
    }
    if (!asker(env.secEnv(), &env, who)) {
        before.reset();
        return -EACCES;
    }
    uint64_t moment = before.moment;
    if (before.kind == Pending::READ && before.path == path) {
        failure = before.failure;
        lane->reader = std::move(before.reader);
    } else {
        moment = open_files().moment();
        lane->reader = Reader::open(who, path, failure);
    }
    OpenFiles::Added added = OpenFiles::OPENED;
    if (lane->reader) added = open_files().add_reader(path, lane->reader->entry.file, moment);
    before.reset();
    if (added == OpenFiles::REPLACED) {
        // Who came later has found another version since, and may come to share this file: it has to be that
        // one, or a still later one.
        Reader::close(std::move(lane->reader));
        moment = open_files().moment();
        lane->reader = Reader::open(who, path, failure);
        added = OpenFiles::OPENED;
        if (lane->reader) added = open_files().add_reader(path, lane->reader->entry.file, moment);
    }
    if (!lane->reader) {
        log().Emsg("Open", name, failure.why.c_str());
        // This is the one call of a file for which a client may be asked to wait.
        return failure.error == ETIMEDOUT ? -EAGAIN : -failure.error;
    }
    // Who may not share this file is on the way: once they are refused, it can be opened. So it can if it is
    // replaced once more at this moment.
    if (added != OpenFiles::OPENED) {
        Reader::close(std::move(lane->reader));
        return -EBUSY;
    }
    entry = lane->reader->entry;
    state = READING;
    return 0;
}

int File::open_writing(const char *name, int flags, mode_t mode, XrdOucEnv &env) {
    Pending &before = pending();
    std::string pipe = before.fifo;
    before.fifo.clear();
    writer = before.take_writer(path);
    if (!writer) {
        before.fifo = pipe;
        before.reset();
        return -EBUSY;
    }
    // From here on the registration is this file's.
    uint64_t size = UINT64_MAX;
    const char *given = env.Get("oss.asize");
    char *end = nullptr;
    if (given && *given) {
        unsigned long long announced_size = strtoull(given, &end, 10);
        if (*end == '\0') size = announced_size;
    }
    Failure failure;
    std::string answer;
    if (!asker(env.secEnv(), &env, who))
        failure.error = EACCES, failure.why = "who it is cannot be told to Kist";
    bool exclusive = !(flags & O_TRUNC), parents = mode & SFS_O_MKPTH;
    std::string body =
        Body().raw(who).text(path).u16(exclusive).u16(parents).u32(mode & 0777).u64(size).bytes;
    for (int attempt = 0; attempt < 2 && !failure; attempt++) {
        link = attempt == 0 ? Link::get(failure) : Link::connect(failure);
        if (!link) break;
        failure = link->ask(CREATE, body, answer);
        if (!failure) break;
        if (!failure.link) {
            Link::put_back(std::move(link));
            break;
        }
        link.reset();
        if (attempt == 0) failure = Failure();
    }
    if (failure || !link) {
        if (!failure) failure.error = EHOSTDOWN;
        open_files().remove_writer(path, writer);
        if (!pipe.empty()) unlink(pipe.c_str());
        log().Emsg("Create", name, failure.why.c_str());
        return failure.error == ETIMEDOUT ? -EAGAIN : -failure.error;
    }
    state = WRITING;
    fifo = pipe;
    if (!fifo.empty()) pumping = std::thread([this] { pump(); });
    return 0;
}

// ---- the end

int File::Close(long long *size) {
    KIST_BEGIN
        pending().reset();
        if (state == WRITING) return close_writing(size);
        if (state == READING) {
            std::list<Lanes::Lane> all = lanes.take_all();
            open_files().remove_reader(path);
            state = CLOSED;
            for (auto &lane : all) Reader::close(std::move(lane.reader));
            if (size) *size = static_cast<long long>(entry.size);
        }
        return 0;
    KIST_END
}

// A clean close by the client is told by Fchmod() just before; without it the client went away.
int File::close_writing(long long *size) {
    stop = true;
    if (pumping.joinable()) pumping.join();
    std::lock_guard<std::mutex> held(mutex);
    int result = 0;
    if (!fifo.empty()) {
        // The program that brought the bytes says that it brought all of them.
        std::string mark = fifo + ".ok";
        if (complete && !failed && access(mark.c_str(), F_OK) != 0) failed = EIO;
        unlink(mark.c_str());
        unlink(fifo.c_str());
    }
    if (complete && failed) result = -failed;
    else if (complete) result = finish();
    if (link) {
        std::string answer;
        if (result == 0 && complete) Link::put_back(std::move(link));
        else if (!link->ask(CLOSE, std::string(), answer)) Link::put_back(std::move(link));
        link.reset();
    }
    open_files().remove_writer(path, writer);
    state = CLOSED;
    if (size) *size = static_cast<long long>(written);
    return result;
}

int File::finish() {
    std::string answer;
    Failure failure = link->refused_so_far();
    if (!failure) failure = link->finish(last_at, last, answer);
    return failure ? fail("Close", failure) : 0;
}

int File::Fchmod(mode_t mode) {
    if (state == READING) return -ENOTSUP;
    std::lock_guard<std::mutex> held(mutex);
    if (mode & XRDSFS_POSCPEND) persists = true;
    else complete = true;
    return 0;
}

// A file is durable when it is closed, and not before.
int File::Fsync() { return -ENOTSUP; }
int File::Fsync(XrdSfsAio *aio) {
    aio->Result = -ENOTSUP;
    aio->doneWrite();
    return 0;
}

int File::Ftruncate(unsigned long long size) {
    if (state != WRITING) return -ENOTSUP;
    return size == 0 && written == 0 ? 0 : -ENOTSUP;
}

int File::Fstat(struct stat *buffer) {
    KIST_BEGIN
        pending().reset();
        if (state == CLOSED) return -EBADF;
        Entry now = entry;
        if (state == WRITING) {
            now.size = written;
            now.mtime_ns = static_cast<int64_t>(time(nullptr)) * 1000000000;
        }
        now.fill(buffer);
        return 0;
    KIST_END
}

// ---- reading

Failure File::open_lane(Lanes::Held &lane) {
    Failure failure;
    lane->reader = Reader::open(who, path, failure);
    if (lane->reader && lane->reader->entry.file != entry.file) {
        Reader::close(std::move(lane->reader));
        failure.error = ESTALE;
        failure.why = "was replaced since it was opened";
    }
    return failure;
}

Failure File::read_again(Lanes::Held &lane, Tag tag, const std::string &body, char *into, size_t room,
                         size_t &got) {
    if (!lane->reader) {
        if (Failure failure = open_lane(lane)) return failure;
    }
    Failure failure = lane->reader->link->read(tag, body, into, room, got);
    if (!failure.link) return failure;
    lane->reader.reset();
    if (failure.late) return failure;
    // Kist was started anew. The file that is open is the one that was opened, or none.
    if (Failure opening = open_lane(lane)) return opening;
    failure = lane->reader->link->read(tag, body, into, room, got);
    if (failure.link) lane->reader.reset();
    return failure;
}

ssize_t File::read_at(char *into, uint64_t offset, size_t size) {
    if (offset >= entry.size) return 0;
    size = std::min<uint64_t>(size, entry.size - offset);
    Failure failure;
    Lanes::Held lane = lanes.take(offset);
    size_t done = 0;
    while (done < size && !failure) {
        uint32_t wanted = static_cast<uint32_t>(std::min<size_t>(size - done, IO_BYTES_MAX));
        size_t got = 0;
        std::string body = Body().u64(offset + done).u32(wanted).bytes;
        failure = read_again(lane, READ, body, into + done, wanted, got);
        if (!failure && got != wanted) {
            failure.error = EIO;
            failure.why = "Kist gave too few bytes";
        }
        done += got;
    }
    lane->next = offset + done;
    return failure ? fail("Read", failure) : static_cast<ssize_t>(done);
}

ssize_t File::Read(void *into, off_t offset, size_t size) {
    KIST_BEGIN
        // What this thread has opened for a client who then came to share an open file.
        pending().reset();
        if (state != READING) return -EBADF;
        if (offset < 0) return -EINVAL;
        return read_at(static_cast<char *>(into), static_cast<uint64_t>(offset), size);
    KIST_END
}

int File::Read(XrdSfsAio *aio) {
    aio->Result =
        Read(const_cast<void *>(aio->sfsAio.aio_buf), aio->sfsAio.aio_offset, aio->sfsAio.aio_nbytes);
    aio->doneRead();
    return 0;
}

ssize_t File::read_group(const XrdOucIOVec *pieces, size_t count, size_t bytes) {
    Body body;
    body.u16(static_cast<uint16_t>(count));
    for (size_t n = 0; n < count; n++) body.u64(pieces[n].offset).u32(pieces[n].size);
    std::string all(bytes, '\0');
    Failure failure;
    size_t got = 0;
    {
        Lanes::Held lane = lanes.take(UINT64_MAX);
        failure = read_again(lane, READ_VECTOR, body.bytes, &all[0], bytes, got);
    }
    if (!failure && got != bytes) {
        failure.error = EIO;
        failure.why = "Kist gave too few bytes";
    }
    if (failure) return fail("ReadV", failure);
    size_t at = 0;
    for (size_t n = 0; n < count; n++) {
        memcpy(pieces[n].data, all.data() + at, pieces[n].size);
        at += pieces[n].size;
    }
    return static_cast<ssize_t>(bytes);
}

ssize_t File::ReadV(XrdOucIOVec *pieces, int number_of_pieces) {
    KIST_BEGIN
        pending().reset();
        if (state != READING) return -EBADF;
        ssize_t total = 0;
        size_t first = 0, bytes = 0, count = number_of_pieces > 0 ? number_of_pieces : 0;
        for (size_t n = 0; n < count; n++) {
            const XrdOucIOVec &piece = pieces[n];
            bool within =
                piece.size >= 0 && piece.offset >= 0 &&
                static_cast<uint64_t>(piece.offset) + static_cast<uint64_t>(piece.size) <= entry.size;
            // As XRootD's own storage says of a piece behind the end.
            if (!within) return -ESPIPE;
        }
        for (size_t n = 0; n <= count; n++) {
            bool full = n == count || n - first == SEGMENTS_MAX || bytes + pieces[n].size > IO_BYTES_MAX;
            if (full && n > first) {
                ssize_t read = bytes > IO_BYTES_MAX ? read_at(pieces[first].data, pieces[first].offset, bytes)
                                                    : read_group(pieces + first, n - first, bytes);
                if (read < 0) return read;
                total += read;
                first = n;
                bytes = 0;
            }
            if (n < count) bytes += pieces[n].size;
        }
        return total;
    KIST_END
}

// ---- writing

int File::put(const char *from, uint64_t offset, size_t size) {
    std::lock_guard<std::mutex> held(mutex);
    if (failed) return -failed;
    Failure failure;
    bool follows = last.empty() || last_at + last.size() == offset;
    if (follows && last.size() + size <= LAST_BYTES_MAX && fifo.empty()) {
        if (last.empty()) last_at = offset;
        last.append(from, size);
        written = std::max<uint64_t>(written, offset + size);
        return 0;
    }
    failure = link->refused_so_far();
    if (!failure) failure = send_last();
    for (size_t done = 0; done < size && !failure;) {
        size_t count = std::min<size_t>(size - done, IO_BYTES_MAX);
        failure = link->write(offset + done, from + done, count);
        done += count;
    }
    if (failure) {
        // Perhaps Kist has said why before it hung up.
        int result = fail("Write", failure);
        failed = -result;
        return result;
    }
    written = std::max<uint64_t>(written, offset + size);
    return 0;
}

Failure File::send_last() {
    if (last.empty()) return Failure();
    Failure failure = link->write(last_at, last.data(), last.size());
    last.clear();
    return failure;
}

ssize_t File::Write(const void *from, off_t offset, size_t size) {
    KIST_BEGIN
        if (state != WRITING) return -EBADF;
        if (offset < 0 || !fifo.empty()) return -EINVAL;
        if (!persists) {
            log().Emsg("Write", path.c_str(),
                       "'ofs.persist auto hold 0' is missing in the configuration of this server");
            return -ENOTSUP;
        }
        int result = put(static_cast<const char *>(from), static_cast<uint64_t>(offset), size);
        return result < 0 ? result : static_cast<ssize_t>(size);
    KIST_END
}

int File::Write(XrdSfsAio *aio) {
    aio->Result =
        Write(const_cast<const void *>(aio->sfsAio.aio_buf), aio->sfsAio.aio_offset, aio->sfsAio.aio_nbytes);
    aio->doneWrite();
    return 0;
}

// Moves bytes from the FIFO to Kist, until the program that writes it has ended, or the file is closed.
void File::pump() {
    int in = -1, error = ENOMEM;
    try {
        in = ::open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        error = in < 0 ? errno : pump_from(in);
    } catch (...) {}
    if (in >= 0) ::close(in);
    if (!error) return;
    std::lock_guard<std::mutex> held(mutex);
    if (!failed) failed = error;
}

// What went wrong, as errno. With an error the file is over, whatever the program says: bytes may be missing.
int File::pump_from(int in) {
    std::vector<char> buffer(1 << 20);
    uint64_t offset = 0;
    for (bool ended = false; !ended;) {
        pollfd wanted = {in, POLLIN, 0};
        int ready = poll(&wanted, 1, 100);
        int error = errno;
        // Closed before the program has brought all: nothing of it is kept.
        if (stop && access((fifo + ".ok").c_str(), F_OK) != 0) break;
        if (ready < 0 && error != EINTR) return error;
        if (ready <= 0) {
            ended = stop;
            continue;
        }
        ssize_t got = ::read(in, buffer.data(), buffer.size());
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (got < 0) return errno;
        if (got == 0) break;
        // Without a reader the program ends with an error.
        if (int refused = put(buffer.data(), offset, got)) return -refused;
        offset += got;
    }
    return 0;
}

// ---- directories

Failure Directory::next_page() {
    std::string answer;
    Failure failure = call(LIST, Body().raw(who).text(path).text(last).u32(LIST_ENTRIES).bytes, answer, true);
    if (failure) return failure;
    Fields fields(answer);
    more = fields.u16() != 0;
    for (uint32_t count = fields.u32(); count > 0 && !fields.bad; count--) {
        Line line;
        line.name = fields.text();
        line.entry = Entry::read(fields);
        if (fields.bad) break;
        last = line.name;
        page.push_back(std::move(line));
    }
    if (fields.bad) {
        failure.error = EIO;
        failure.why = "a listing of Kist cannot be read";
    }
    return failure;
}

int Directory::Opendir(const char *name, XrdOucEnv &env) {
    KIST_BEGIN
        if (!is_path(name)) return -EINVAL;
        if (!asker(env.secEnv(), &env, who)) return -EACCES;
        path = name;
        if (Failure failure = next_page()) return number(failure);
        is_open = true;
        return 0;
    KIST_END
}

// A listing is lines: a name with an end of line would be two, and the rest of the listing unreadable. Such a
// name is shown with percent signs; under that name nothing is found, and nobody can ask for it here.
static std::string in_one_line(const std::string &name) {
    auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
    if (std::none_of(name.begin(), name.end(), is_control)) return name;
    std::string shown;
    for (unsigned char c : name) {
        if (!is_control(c) && c != '%') {
            shown += static_cast<char>(c);
            continue;
        }
        char code[4];
        snprintf(code, sizeof code, "%%%02X", c);
        shown += code;
    }
    return shown;
}

int Directory::Readdir(char *into, int room) {
    KIST_BEGIN
        if (!is_open || room < 1) return -EBADF;
        while (page.empty() && more)
            if (Failure failure = next_page()) return number(failure);
        *into = '\0';
        if (page.empty()) return 0;
        Line line = std::move(page.front());
        page.pop_front();
        std::string name = in_one_line(line.name);
        if (name.size() >= static_cast<size_t>(room)) return -ENAMETOOLONG;
        memcpy(into, name.c_str(), name.size() + 1);
        if (wanted) line.entry.fill(wanted);
        return 0;
    KIST_END
}

}  // namespace kist
