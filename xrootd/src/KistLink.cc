#include "KistLink.hh"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "XrdNet/XrdNetAddrInfo.hh"
#include "XrdOuc/XrdOucEnv.hh"
#include "XrdSec/XrdSecEntity.hh"
#include "XrdSfs/XrdSfsFlags.hh"
#include "XrdSys/XrdSysError.hh"

namespace kist {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "the protocol is little-endian, and so is this code");

static const uint64_t MAGIC = 0x6472782d7473696bULL;  // "kist-xrd"
static const uint16_t VERSION = 1;
static const useconds_t CONNECT_AGAIN_US = 100 * 1000;

// ---- bodies

std::string Fields::text() {
    size_t count = u16();
    if (count > left) {
        bad = true;
        left = 0;
        return std::string();
    }
    std::string text(at, count);
    at += count;
    left -= count;
    return text;
}

Entry Entry::read(Fields &fields) {
    Entry entry;
    entry.flags = fields.u16();
    entry.mode = fields.u32();
    entry.size = fields.u64();
    entry.mtime_ns = fields.i64();
    entry.file = fields.u64();
    entry.adler32 = fields.u32();
    entry.crc32c = fields.u32();
    return entry;
}

void Entry::fill(struct stat *buffer) const {
    memset(buffer, 0, sizeof *buffer);
    bool directory = flags & IS_DIRECTORY;
    // XRootD tells its client what the server's own user may: who may what is for Kist to say, call by call.
    buffer->st_mode = (directory ? S_IFDIR | 0700 : S_IFREG | 0600) | (mode & 0777);
    buffer->st_uid = geteuid();
    buffer->st_gid = getegid();
    buffer->st_nlink = 1;
    buffer->st_dev = 1;
    buffer->st_ino = file ? file : 1;
    buffer->st_size = static_cast<off_t>(size);
    buffer->st_blksize = 1 << 20;
    buffer->st_blocks = static_cast<blkcnt_t>((size + 511) / 512);
    time_t seconds = mtime_ns / 1000000000;
    buffer->st_mtime = buffer->st_atime = buffer->st_ctime = seconds;
    if (!directory) {
        if (flags & IS_OFFLINE) buffer->st_rdev |= XRDSFS_OFFLINE;
        if (flags & IS_BACKED_UP) buffer->st_rdev |= XRDSFS_HASBKUP;
    }
}

// ---- settings

Settings &settings() {
    static Settings the;
    return the;
}
XrdSysError &log() {
    static XrdSysError the(nullptr, "kist_");
    return the;
}

int is_private(const std::string &directory) {
    struct stat found;
    if (lstat(directory.c_str(), &found) != 0) return errno;
    if (!S_ISDIR(found.st_mode)) return ENOTDIR;
    return found.st_uid == geteuid() && (found.st_mode & 077) == 0 ? 0 : EPERM;
}

bool configure(XrdSysLogger *logger, const char *file) {
    static std::mutex mutex;
    static bool done = false, good = false;
    std::lock_guard<std::mutex> held(mutex);
    if (logger) log().logger(logger);
    if (done) return good;
    done = true;
    std::ifstream text(file ? file : "");
    std::string line;
    bool bad = false;
    while (std::getline(text, line)) {
        std::istringstream words(line);
        std::string key, value;
        if (!(words >> key) || key.compare(0, 5, "kist.") != 0) continue;
        if (!(words >> value)) {
            log().Emsg("Config", key.c_str(), "has no value");
            bad = true;
            continue;
        }
        if (key == "kist.socket") settings().socket = value;
        else if (key == "kist.tpcdir") settings().tpc_directory = value;
        else if (key == "kist.timeout") settings().answer_seconds = atoi(value.c_str());
        else if (key == "kist.finish") settings().finish_seconds = atoi(value.c_str());
        else if (key == "kist.connect") settings().connect_seconds = atoi(value.c_str());
        else {
            log().Emsg("Config", key.c_str(), "is no setting of Kist's plugin");
            bad = true;
        }
    }
    if (settings().tpc_directory.empty()) {
        const char *admin = getenv("XRDADMINPATH");
        settings().tpc_directory = std::string(admin ? admin : "/tmp") + "/kist-tpc";
    }
    // It is made with the first copy. What is there already may be somebody else's, who waits for this.
    int error = is_private(settings().tpc_directory);
    if (error && error != ENOENT) {
        std::string why =
            settings().tpc_directory + " (kist.tpcdir) is no directory of this server's user alone";
        log().Emsg("Config", error, why.c_str(), "(mode 0700): remove it, or name another one");
        bad = true;
    }
    if (settings().socket.empty()) {
        log().Emsg("Config", "kist.socket is missing: the path of Kist's socket");
        bad = true;
    }
    if (settings().socket.size() >= sizeof(sockaddr_un::sun_path)) {
        log().Emsg("Config", "kist.socket is too long");
        bad = true;
    }
    if (settings().answer_seconds < 1 || settings().finish_seconds < 1 || settings().connect_seconds < 0) {
        log().Emsg("Config", "kist.timeout, kist.finish and kist.connect are whole seconds");
        bad = true;
    }
    good = !bad;
    return good;
}

// ---- a connection

Link::~Link() { ::close(fd); }

Failure Link::broken(const char *what, int error) {
    failed = true;
    Failure failure;
    // EAGAIN is how the kernel says that the time is over. ETIMEDOUT and EBUSY are never told: XRootD takes
    // them for a wish to wait, and in a read for a number of bytes.
    failure.error = EHOSTDOWN;
    failure.why =
        std::string(what) + ": " + (error == EAGAIN ? "Kist does not answer in time" : strerror(error));
    failure.link = true;
    failure.late = error == EAGAIN;
    return failure;
}

Failure Link::send(Tag tag, const char *head, size_t head_count, const char *tail, size_t tail_count) {
    char bytes[HEADER_BYTES];
    uint32_t length = static_cast<uint32_t>(head_count + tail_count);
    uint16_t kind = tag, zero = 0;
    id++;
    memcpy(bytes, &length, 4);
    memcpy(bytes + 4, &kind, 2);
    memcpy(bytes + 6, &zero, 2);
    memcpy(bytes + 8, &id, 8);
    iovec parts[3] = {{bytes, HEADER_BYTES},
                      {const_cast<char *>(head), head_count},
                      {const_cast<char *>(tail), tail_count}};
    msghdr message = {};
    message.msg_iov = parts;
    message.msg_iovlen = 3;
    size_t left = HEADER_BYTES + head_count + tail_count;
    while (left > 0) {
        ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return broken("sending to Kist", errno);
        left -= sent;
        while (sent > 0) {
            size_t count = std::min<size_t>(sent, message.msg_iov->iov_len);
            message.msg_iov->iov_base = static_cast<char *>(message.msg_iov->iov_base) + count;
            message.msg_iov->iov_len -= count;
            sent -= count;
            if (message.msg_iov->iov_len == 0 && message.msg_iovlen > 1) {
                message.msg_iov++;
                message.msg_iovlen--;
            }
        }
    }
    return Failure();
}

Failure Link::send_all(const std::string &bytes) {
    for (size_t done = 0; done < bytes.size();) {
        ssize_t sent = ::send(fd, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return broken("sending to Kist", errno);
        done += sent;
    }
    return Failure();
}

Failure Link::receive(void *into, size_t count) {
    char *at = static_cast<char *>(into);
    while (count > 0) {
        ssize_t got = recv(fd, at, count, MSG_WAITALL);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return broken("waiting for Kist", errno);
        if (got == 0) return broken("waiting for Kist", ECONNRESET);
        at += got;
        count -= got;
    }
    return Failure();
}

Failure Link::header(uint16_t &tag, uint32_t &length) {
    char bytes[HEADER_BYTES];
    if (Failure failure = receive(bytes, sizeof bytes)) return failure;
    uint64_t answered;
    memcpy(&length, bytes, 4);
    memcpy(&tag, bytes + 4, 2);
    memcpy(&answered, bytes + 8, 8);
    if (length > FRAME_BYTES_MAX) return broken("an answer of Kist", EPROTO);
    // Only a refused WRITE is answered with another number than that of the last frame.
    if (answered != id && tag != REFUSED) return broken("an answer of Kist", EPROTO);
    return Failure();
}

Failure Link::refusal(uint32_t length) {
    std::string body(length, '\0');
    if (Failure failure = receive(&body[0], length)) return failure;
    Fields fields(body);
    Failure refused;
    refused.error = fields.u16();
    refused.why = fields.text();
    if (fields.bad || refused.error <= 0) refused.error = EIO;
    return refused;
}

Failure Link::ask(Tag tag, const std::string &body, std::string &answer) {
    if (Failure failure = send(tag, body.data(), body.size(), nullptr, 0)) return failure;
    return answer_to(tag, answer);
}

Failure Link::finish(uint64_t offset, const std::string &last, std::string &answer) {
    // Both frames in one go, so that Kist is woken once. A refused write is followed by the refusal of the
    // end.
    std::string frames;
    for (Tag tag : {WRITE, FINISH}) {
        if (tag == WRITE && last.empty()) continue;
        uint32_t length = tag == WRITE ? static_cast<uint32_t>(sizeof offset + last.size()) : 0;
        uint16_t kind = tag, zero = 0;
        id++;
        frames.append(reinterpret_cast<char *>(&length), 4).append(reinterpret_cast<char *>(&kind), 2);
        frames.append(reinterpret_cast<char *>(&zero), 2).append(reinterpret_cast<char *>(&id), 8);
        if (tag == WRITE) frames.append(reinterpret_cast<char *>(&offset), sizeof offset).append(last);
    }
    if (Failure failure = send_all(frames)) return failure;
    // A large file takes its time on the disks.
    wait_for(settings().finish_seconds);
    Failure refused = answer_to(FINISH, answer);
    wait_for(settings().answer_seconds);
    // What is left in the connection belongs to nobody: it is not used again.
    if (refused) failed = true;
    return refused;
}

void Link::wait_for(int seconds) {
    timeval wait = {seconds, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
}

Failure Link::answer_to(Tag tag, std::string &answer) {
    uint16_t said;
    uint32_t length;
    if (Failure failure = header(said, length)) return failure;
    if (said == REFUSED) return refusal(length);
    if (said != (tag | ANSWER)) return broken("an answer of Kist", EPROTO);
    answer.resize(length);
    return receive(&answer[0], length);
}

Failure Link::read(Tag tag, const std::string &body, char *into, size_t room, size_t &got) {
    got = 0;
    if (Failure failure = send(tag, body.data(), body.size(), nullptr, 0)) return failure;
    uint16_t said;
    uint32_t length;
    if (Failure failure = header(said, length)) return failure;
    if (said == REFUSED) return refusal(length);
    if (said != (tag | ANSWER) || length > room) return broken("an answer of Kist", EPROTO);
    if (Failure failure = receive(into, length)) return failure;
    got = length;
    return Failure();
}

Failure Link::write(uint64_t offset, const char *bytes, size_t count) {
    return send(WRITE, reinterpret_cast<const char *>(&offset), sizeof offset, bytes, count);
}

Failure Link::refused_so_far() {
    pollfd wanted = {fd, POLLIN, 0};
    if (poll(&wanted, 1, 0) <= 0) return Failure();
    uint16_t said;
    uint32_t length;
    if (Failure failure = header(said, length)) return failure;
    if (said == REFUSED) return refusal(length);
    return broken("an answer of Kist", EPROTO);
}

bool Link::is_quiet() const {
    pollfd wanted = {fd, POLLIN, 0};
    return !failed && poll(&wanted, 1, 0) == 0;
}

static std::mutex idle_mutex;
static std::vector<std::unique_ptr<Link>> idle;

std::unique_ptr<Link> Link::get(Failure &failure) {
    for (;;) {
        std::unique_ptr<Link> link;
        {
            std::lock_guard<std::mutex> held(idle_mutex);
            if (idle.empty()) break;
            link = std::move(idle.back());
            idle.pop_back();
        }
        // One of a server that has ended is let go.
        if (link->is_quiet()) return link;
    }
    return connect(failure);
}

std::unique_ptr<Link> Link::connect(Failure &failure) {
    auto until = std::chrono::steady_clock::now() + std::chrono::seconds(settings().connect_seconds);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    strncpy(address.sun_path, settings().socket.c_str(), sizeof address.sun_path - 1);
    timeval wait = {settings().answer_seconds, 0};
    for (;;) {
        int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0) {
            failure.error = errno;
            failure.why = "no socket can be had";
            return nullptr;
        }
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
        int size = 4 << 20;
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
        std::unique_ptr<Link> link(new Link(fd));
        int error = 0;
        if (::connect(fd, reinterpret_cast<sockaddr *>(&address), sizeof address) == 0) {
            std::string answer;
            failure = link->ask(HELLO, Body().u64(MAGIC).u16(VERSION).bytes, answer);
            if (!failure) return link;
            // What Kist says in words is not said otherwise a moment later.
            if (!failure.link) {
                log().Emsg("Connect", failure.why.c_str());
                return nullptr;
            }
        } else {
            error = errno;
            failure.error = EHOSTDOWN;
            failure.why =
                std::string("Kist cannot be reached at ") + settings().socket + ": " + strerror(error);
            failure.link = true;
        }
        if (error == EACCES || std::chrono::steady_clock::now() >= until) {
            log().Emsg("Connect", failure.why.c_str());
            return nullptr;
        }
        usleep(CONNECT_AGAIN_US);
    }
}

void Link::put_back(std::unique_ptr<Link> link) {
    if (!link || link->failed) return;
    std::lock_guard<std::mutex> held(idle_mutex);
    if (idle.size() < IDLE_LINKS_MAX) idle.push_back(std::move(link));
}

Failure call(Tag tag, const std::string &body, std::string &answer, bool again) {
    for (int attempt = 0;; attempt++) {
        Failure failure;
        std::unique_ptr<Link> link = attempt == 0 ? Link::get(failure) : Link::connect(failure);
        if (!link) return failure;
        failure = link->ask(tag, body, answer);
        Link::put_back(std::move(link));
        if (!failure.link || failure.late || !again || attempt > 0) return failure;
    }
}

// ---- who asks

bool is_utf8(const std::string &text) {
    const unsigned char *at = reinterpret_cast<const unsigned char *>(text.data()), *end = at + text.size();
    while (at < end) {
        unsigned char first = *at++;
        if (first == 0) return false;
        if (first < 0x80) continue;
        int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
        if (first < 0xc2 || first > 0xf4 || end - at < more) return false;
        unsigned char low = 0x80, high = 0xbf;
        if (first == 0xe0) low = 0xa0;
        if (first == 0xed) high = 0x9f;
        if (first == 0xf0) low = 0x90;
        if (first == 0xf4) high = 0x8f;
        for (int n = 0; n < more; n++, at++) {
            if (*at < low || *at > high) return false;
            low = 0x80, high = 0xbf;
        }
    }
    return true;
}

bool is_path(const char *path) {
    return path && *path == '/' && strlen(path) <= PATH_BYTES_MAX && is_utf8(path);
}

static std::string token_of(const XrdSecEntity *entity, XrdOucEnv *env) {
    const char *given = env ? env->Get("authz") : nullptr;
    if (given && *given) {
        for (const char *before : {"Bearer%20", "Bearer "})
            if (!strncmp(given, before, strlen(before))) return given + strlen(before);
        return given;
    }
    if (entity && !strcmp(entity->prot, "ztn") && entity->creds && entity->credslen > 0) {
        std::string token(entity->creds, entity->credslen);
        while (!token.empty() && token.back() == '\0') token.pop_back();
        return token;
    }
    return std::string();
}

bool asker(const XrdSecEntity *entity, XrdOucEnv *env, std::string &bytes) {
    auto text = [](const char *of) { return std::string(of ? of : ""); };
    std::string protocol, name, organisations, roles, groups, subject, address;
    if (entity) {
        protocol = std::string(entity->prot, strnlen(entity->prot, sizeof entity->prot));
        name = text(entity->name);
        organisations = text(entity->vorg);
        roles = text(entity->role);
        groups = text(entity->grps);
        if (entity->moninfo && *entity->moninfo == '/') subject = entity->moninfo;
        else if (!name.empty() && name[0] == '/') subject = name;
        if (entity->addrInfo) {
            char buffer[ADDRESS_BYTES_MAX + 1] = "";
            // An address with its port, not what a name server says of it.
            if (entity->addrInfo->Format(buffer, sizeof buffer, XrdNetAddrInfo::fmtAddr, 0) > 0)
                address = buffer;
        }
    }
    std::string token = token_of(entity, env);
    struct {
        const std::string &text;
        size_t max;
    } all[] = {{protocol, PROTOCOL_BYTES_MAX}, {name, NAME_BYTES_MAX},     {organisations, ENTITY_BYTES_MAX},
               {roles, ENTITY_BYTES_MAX},      {groups, ENTITY_BYTES_MAX}, {subject, ENTITY_BYTES_MAX},
               {address, ADDRESS_BYTES_MAX},   {token, TOKEN_BYTES_MAX}};
    Body body;
    for (auto &one : all) {
        // Nothing is cut: what is cut may be somebody else's.
        if (one.text.size() > one.max || !is_utf8(one.text)) return false;
        body.text(one.text);
    }
    bytes = body.bytes;
    return true;
}

}  // namespace kist
