// The socket to Kist: docs/reference/xrootd-socket.md describes it to the byte. Blocking, with bounded waits.
#pragma once

#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

class XrdOucEnv;
class XrdSecEntity;
class XrdSysError;
class XrdSysLogger;

namespace kist {

constexpr uint32_t IO_BYTES_MAX = 2 << 20;  // of a file in one frame
constexpr uint32_t FRAME_BYTES_MAX = IO_BYTES_MAX + (64 << 10);
constexpr size_t HEADER_BYTES = 16;
constexpr size_t PATH_BYTES_MAX = 4096;
constexpr size_t ENTITY_BYTES_MAX = 8 << 10;  // groups, roles, organisations, subject
constexpr size_t NAME_BYTES_MAX = 1 << 10;
constexpr size_t PROTOCOL_BYTES_MAX = 16;
constexpr size_t ADDRESS_BYTES_MAX = 128;
constexpr size_t TOKEN_BYTES_MAX = 16 << 10;
constexpr size_t REQUEST_BYTES_MAX = 64;
constexpr size_t SEGMENTS_MAX = 1024;
constexpr size_t PATHS_MAX = 10000;
constexpr uint32_t LIST_ENTRIES = 1000;
constexpr size_t IDLE_LINKS_MAX = 64;  // that are kept for the next call

enum Tag : uint16_t {
    HELLO = 1,
    STAT,
    LIST,
    OPEN,
    READ,
    READ_VECTOR,
    CREATE,
    WRITE,
    FINISH,
    CLOSE,
    MAKE_DIRECTORY,
    REMOVE_DIRECTORY,
    REMOVE,
    RENAME,
    STAGE,
    CANCEL,
    QUERY,
    EVICT,
    SPACE,
    ANSWER = 0x4000,
    REFUSED = 0x7fff
};

// Flags of a name.
constexpr uint16_t IS_DIRECTORY = 1, IS_OFFLINE = 2, IS_BACKED_UP = 4;

// A failure that XRootD's errno texts have no word for keeps what Kist said.
struct Failure {
    int error = 0;  // errno, positive; 0: none
    std::string why;
    bool link = false;  // the connection failed: nobody knows what Kist did
    bool late = false;  // because nothing came in time: who asks again waits as long again
    explicit operator bool() const { return error != 0; }
};

// Builds the body of a request.
class Body {
public:
    Body &u16(uint16_t n) { return put(&n, sizeof n); }
    Body &u32(uint32_t n) { return put(&n, sizeof n); }
    Body &u64(uint64_t n) { return put(&n, sizeof n); }
    Body &raw(const std::string &text) {
        bytes += text;
        return *this;
    }
    Body &text(const std::string &text) { return u16(static_cast<uint16_t>(text.size())).raw(text); }
    std::string bytes;

private:
    Body &put(const void *from, size_t count) {
        bytes.append(static_cast<const char *>(from), count);
        return *this;
    }
};

// Reads the body of an answer; what is not there is zero and sets `bad`.
class Fields {
public:
    explicit Fields(const std::string &body) : at(body.data()), left(body.size()) {}
    uint16_t u16() { return number<uint16_t>(); }
    uint32_t u32() { return number<uint32_t>(); }
    uint64_t u64() { return number<uint64_t>(); }
    int64_t i64() { return number<int64_t>(); }
    std::string text();
    bool bad = false;

private:
    template <typename T>
    T number() {
        T value = 0;
        if (left < sizeof value) {
            bad = true;
            left = 0;
            return 0;
        }
        memcpy(&value, at, sizeof value);
        at += sizeof value;
        left -= sizeof value;
        return value;
    }
    const char *at;
    size_t left;
};

// What Kist says of a name.
struct Entry {
    uint16_t flags = 0;
    uint32_t mode = 0;
    uint64_t size = 0;
    int64_t mtime_ns = 0;
    uint64_t file = 0;
    uint32_t adler32 = 0, crc32c = 0;
    static Entry read(Fields &fields);
    void fill(struct stat *buffer) const;
};

// The lines `kist.…` of the configuration file.
struct Settings {
    std::string socket;
    std::string tpc_directory;
    int finish_seconds = 600;  // the longest wait until a new file is durable
    int answer_seconds = 30;   // the longest wait for an answer, or until Kist takes what is sent
    int connect_seconds = 20;  // the longest wait for Kist to listen again
};
Settings &settings();
XrdSysError &log();
// Reads the configuration, once for all plugins. False: it cannot be used.
bool configure(XrdSysLogger *logger, const char *file);
// Whether a directory belongs to this server alone, as errno: what it reads there becomes somebody's file.
int is_private(const std::string &directory);

// One connection. At most one file is open in it at Kist's side. Not for several threads at once.
class Link {
public:
    ~Link();
    Link(const Link &) = delete;
    Link &operator=(const Link &) = delete;

    // Asks and waits for the answer.
    Failure ask(Tag tag, const std::string &body, std::string &answer);
    // Asks for bytes, which come into `into`. `got`: how many came.
    Failure read(Tag tag, const std::string &body, char *into, size_t room, size_t &got);
    // Sends bytes of a file; there is no answer.
    Failure write(uint64_t offset, const char *bytes, size_t count);
    // Sends the last bytes of a file, if any, and waits until it is kept.
    Failure finish(uint64_t offset, const std::string &last, std::string &answer);
    // What Kist refused of those bytes, if it has said so by now.
    Failure refused_so_far();
    // Whether the other side is there, and has said nothing that was not asked for.
    bool is_quiet() const;

    // A connection, new or from those that are idle.
    static std::unique_ptr<Link> get(Failure &failure);
    // One that is surely new.
    static std::unique_ptr<Link> connect(Failure &failure);
    // It may be used for another call.
    static void put_back(std::unique_ptr<Link> link);

private:
    explicit Link(int descriptor) : fd(descriptor) {}
    Failure send(Tag tag, const char *head, size_t head_count, const char *tail, size_t tail_count);
    Failure send_all(const std::string &bytes);
    Failure answer_to(Tag tag, std::string &answer);
    void wait_for(int seconds);
    Failure receive(void *into, size_t count);
    Failure header(uint16_t &tag, uint32_t &length);
    Failure refusal(uint32_t length);
    Failure broken(const char *what, int error);

    int fd;
    uint64_t id = 0;
    bool failed = false;
};

// A call that needs no open file. `again`: it may be repeated if the connection fails.
Failure call(Tag tag, const std::string &body, std::string &answer, bool again);

// Who asks, as bytes of a request. False: what is known of them cannot be said, and they are refused.
bool asker(const XrdSecEntity *entity, XrdOucEnv *env, std::string &bytes);
bool is_utf8(const std::string &text);
// A path as Kist takes it.
bool is_path(const char *path);

}  // namespace kist
