// What XRootD loads: storage, authorisation, prepare, checksums.

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "KistFile.hh"
#include "KistGuard.hh"
#include "XrdAcc/XrdAccAuthorize.hh"
#include "XrdAcc/XrdAccPrivs.hh"
#include "XrdCks/XrdCks.hh"
#include "XrdOfs/XrdOfsHandle.hh"
#include "XrdOfs/XrdOfsPrepare.hh"
#include "XrdOuc/XrdOucBuffer.hh"
#include "XrdOuc/XrdOucEnv.hh"
#include "XrdOuc/XrdOucErrInfo.hh"
#include "XrdOuc/XrdOucTList.hh"
#include "XrdSfs/XrdSfsInterface.hh"
#include "XrdSys/XrdSysError.hh"
#include "XrdSys/XrdSysLogger.hh"
#include "XrdVersion.hh"

using namespace kist;

namespace {

const XrdSecEntity *entity(XrdOucEnv *env) { return env ? env->secEnv() : nullptr; }

// ---- storage

// There is no file below it, and none can be made.
constexpr char NOWHERE[] = "/dev/null";

class Storage : public XrdOss {
public:
    XrdOssDF *newDir(const char *tident) override { return new (std::nothrow) Directory(tident); }
    XrdOssDF *newFile(const char *tident) override { return new (std::nothrow) File(tident); }
    uint64_t Features() override { return XRDOSS_HASNAIO | XRDOSS_HASNOSF; }
    int Init(XrdSysLogger *logger, const char *file) override {
        return configure(logger, file) ? 0 : -EINVAL;
    }
    // What is kept is not changed, its mode neither.
    int Chmod(const char *, mode_t, XrdOucEnv *) override { return -ENOTSUP; }

    // Open() makes the file, on the same thread: there it is known whether its parents are to be made. Here
    // its path is taken, so that no other client is given this file as its own.
    int Create(const char *, const char *path, mode_t, XrdOucEnv &env, int) override {
        KIST_BEGIN
            Pending &mine = pending();
            mine.reset();
            if (!is_path(path)) return -EINVAL;
            if (!authorises) return -EACCES;
            bool is_open;
            uint64_t number = open_files().add_writer(path, is_open);
            // One that is on the way and does not arrive is forgotten: the client asks again in 5 s.
            if (!number) return is_open ? -ETXTBSY : -EBUSY;
            mine.writer = number;
            mine.kind = Pending::WRITE;
            mine.path = path;
            // The destination of a third-party copy: another program brings the bytes.
            if (env.Get("tpc.key")) {
                int error = make_fifo(mine.fifo);
                if (error) {
                    mine.reset();
                    return -error;
                }
            }
            return -ENOTSUP;
        KIST_END
    }

    // Where that program is to write to. Nothing else stands in a file system of this host: whoever asks
    // for the place of a path gets one below which there is no file. XRootD would use it by itself, for
    // extended attributes, and the file there would have nothing to do with Kist.
    const char *Lfn2Pfn(const char *path, char *buffer, int room, int &rc) override {
        Pending &mine = pending();
        bool is_fifo = mine.kind == Pending::WRITE && !mine.fifo.empty() && mine.path == path;
        std::string place = is_fifo ? mine.fifo : NOWHERE + std::string(path);
        if (place.size() >= static_cast<size_t>(room)) {
            rc = -ENAMETOOLONG;
            return nullptr;
        }
        rc = 0;
        return strcpy(buffer, place.c_str());
    }
    int Lfn2Pfn(const char *path, char *buffer, int room) override {
        int error;
        return Lfn2Pfn(path, buffer, room, error) ? 0 : error;
    }

    int Mkdir(const char *path, mode_t mode, int parents, XrdOucEnv *env) override {
        return change(MAKE_DIRECTORY, path, env,
                      [&](Body &body) { body.u32(mode & 0777).u16(parents != 0); });
    }
    int Remdir(const char *path, int, XrdOucEnv *env) override {
        return change(REMOVE_DIRECTORY, path, env, [](Body &) {});
    }
    int Unlink(const char *path, int, XrdOucEnv *env) override {
        // XRootD itself removes what it thinks was left of a file that was not closed. Nothing is left of
        // one, and what has its name is another file.
        if (!entity(env)) return 0;
        return change(REMOVE, path, env, [](Body &) {});
    }
    int Rename(const char *from, const char *to, XrdOucEnv *env, XrdOucEnv *) override {
        if (!is_path(to)) return -EINVAL;
        return change(RENAME, from, env, [&](Body &body) { body.text(to); });
    }
    int Truncate(const char *, unsigned long long, XrdOucEnv *) override {
        pending().reset();
        return -ENOTSUP;
    }

    int Stat(const char *path, struct stat *buffer, int, XrdOucEnv *env) override {
        KIST_BEGIN
            // XRootD's own looks for what it has to remove, see Unlink().
            if (!entity(env)) return -ENOENT;
            Entry entry;
            if (Failure failure = stat(path, env, entry)) return number(failure);
            entry.fill(buffer);
            return 0;
        KIST_END
    }
    static Failure stat(const char *path, XrdOucEnv *env, Entry &entry) {
        Failure failure;
        std::string who, answer;
        if (!is_path(path)) {
            failure.error = EINVAL;
            return failure;
        }
        if (!asker(kist_entity(env), env, who)) {
            failure.error = EACCES;
            return failure;
        }
        failure = call(STAT, Body().raw(who).text(path).bytes, answer, true);
        Fields fields(answer);
        if (!failure) entry = Entry::read(fields);
        return failure;
    }

    int StatFS(const char *, char *buffer, int &room, XrdOucEnv *env) override {
        KIST_BEGIN
            uint64_t total, free;
            if (Failure failure = space(env, total, free)) return number(failure);
            long long mib = std::min<uint64_t>(free >> 20, 0x7fffffff);
            int used = total ? static_cast<int>((total - free) / (total / 100.0)) : 0;
            room = snprintf(buffer, room, "1 %lld %d 1 %lld %d", mib, used, mib, used);
            return 0;
        KIST_END
    }
    int StatLS(XrdOucEnv &env, const char *, char *buffer, int &room) override {
        KIST_BEGIN
            uint64_t total, free;
            if (Failure failure = space(&env, total, free)) return number(failure);
            room = snprintf(
                buffer, room,
                "oss.cgroup=public&oss.space=%llu&oss.free=%llu&oss.maxf=%llu&oss.used=%llu&oss.quota=-1",
                static_cast<unsigned long long>(total), static_cast<unsigned long long>(free),
                static_cast<unsigned long long>(free), static_cast<unsigned long long>(total - free));
            return 0;
        KIST_END
    }
    int StatVS(XrdOssVSInfo *info, const char *, int) override {
        KIST_BEGIN
            uint64_t total, free;
            if (Failure failure = space(nullptr, total, free)) return number(failure);
            info->Total = info->Large = static_cast<long long>(total);
            info->Free = info->LFree = static_cast<long long>(free);
            info->Usage = static_cast<long long>(total - free);
            info->Extents = 1;
            return 0;
        KIST_END
    }
    int StatXA(const char *path, char *buffer, int &room, XrdOucEnv *env) override {
        KIST_BEGIN
            Entry entry;
            if (Failure failure = stat(path, env, entry)) return number(failure);
            room =
                snprintf(buffer, room,
                         "oss.cgroup=public&oss.type=%c&oss.used=%llu&oss.mt=%lld&oss.ct=%lld&oss.at=%lld&"
                         "oss.u=*&oss.g=*&oss.fs=%c",
                         entry.flags & IS_DIRECTORY ? 'd' : 'f', static_cast<unsigned long long>(entry.size),
                         static_cast<long long>(entry.mtime_ns / 1000000000),
                         static_cast<long long>(entry.mtime_ns / 1000000000),
                         static_cast<long long>(entry.mtime_ns / 1000000000), 'w');
            return 0;
        KIST_END
    }

private:
    static const XrdSecEntity *kist_entity(XrdOucEnv *env) { return entity(env); }

    static Failure space(XrdOucEnv *env, uint64_t &total, uint64_t &free) {
        std::string who, answer;
        Failure failure;
        if (!asker(entity(env), env, who)) {
            failure.error = EACCES;
            return failure;
        }
        failure = call(SPACE, who, answer, true);
        Fields fields(answer);
        total = fields.u64();
        free = std::min(fields.u64(), total);
        return failure;
    }

    // A change: once it was sent, nobody asks again, since nobody knows whether it was made.
    template <typename More>
    static int change(Tag tag, const char *path, XrdOucEnv *env, More more) {
        KIST_BEGIN
            pending().reset();
            std::string who, answer;
            if (!is_path(path)) return -EINVAL;
            if (!asker(entity(env), env, who)) return -EACCES;
            Body body;
            body.raw(who).text(path);
            more(body);
            Failure failure = call(tag, body.bytes, answer, false);
            if (failure) log().Emsg("Change", path, failure.why.c_str());
            return number(failure);
        KIST_END
    }

    static int make_fifo(std::string &path) {
        static std::atomic<unsigned> count{0};
        const std::string &directory = settings().tpc_directory;
        if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) return errno;
        if (int error = is_private(directory)) return error;
        char name[64];
        snprintf(name, sizeof name, "/%ld-%u", static_cast<long>(getpid()), count++);
        unlink((directory + name).c_str());
        unlink((directory + name + ".ok").c_str());
        if (mkfifo((directory + name).c_str(), 0600) != 0) return errno;
        path = directory + name;
        return 0;
    }
};

// ---- authorisation: Kist is asked in the calls themselves, but for opens, see KistOpen.hh

class Authorisation : public XrdAccAuthorize {
public:
    XrdAccPrivs Access(const XrdSecEntity *entity, const char *path, const Access_Operation operation,
                       XrdOucEnv *env) override {
        try {
            Pending &mine = pending();
            mine.reset();
            if (operation == AOP_Update) return update(mine, path);
            if (operation == AOP_Read) return read(mine, entity, path, env);
            return operation == AOP_Any ? XrdAccPriv_None : XrdAccPriv_All;
        } catch (...) { return XrdAccPriv_None; }
    }
    int Audit(const int, const XrdSecEntity *, const char *, const Access_Operation, XrdOucEnv *) override {
        return 0;
    }
    int Test(const XrdAccPrivs all, const Access_Operation operation) override {
        return operation != AOP_Any && all == XrdAccPriv_All;
    }

private:
    // An open for update is refused by File::Open(). Until then nobody opens the path as a new file, which
    // would be shared with this client.
    static XrdAccPrivs update(Pending &mine, const char *path) {
        bool is_open;
        uint64_t number = path ? open_files().add_writer(path, is_open) : 0;
        if (!number) return XrdAccPriv_None;
        mine.writer = number;
        mine.kind = Pending::WRITE;
        mine.path = path;
        return XrdAccPriv_All;
    }

    // The file is opened here and handed to File::Open(). If the client shares an open file, it is closed
    // again with the next call of this thread.
    static XrdAccPrivs read(Pending &mine, const XrdSecEntity *entity, const char *path, XrdOucEnv *env) {
        std::string who;
        if (!is_path(path) || !asker(entity, env, who)) return XrdAccPriv_None;
        Failure failure;
        mine.moment = open_files().moment();
        std::unique_ptr<Reader> reader = Reader::open(who, path, failure);
        if (!reader) {
            if (!failure) failure.error = EIO;
            // What is wrong is told by Open(); who may not read must not come to share what somebody else has
            // open.
            if (failure.error == EACCES || !open_files().add_refused(path)) return XrdAccPriv_None;
            mine.failure = failure;
        }
        mine.kind = Pending::READ;
        mine.path = path;
        mine.reader = std::move(reader);
        if (mine.reader) {
            bool was_replaced = open_files().arrive(mine.path, mine.reader->entry.file, mine.moment);
            mine.arrives = true;
            // Who has the old version open keeps it; this client opens the file anew.
            if (was_replaced) XrdOfsHandle::Hide(path);
        }
        return XrdAccPriv_All;
    }
};

// ---- prepare

class Prepare : public XrdOfsPrepare {
public:
    int begin(XrdSfsPrep &what, XrdOucErrInfo &error, const XrdSecEntity *client) override {
        try {
            // Evict comes with options 0, and so does what asks for nothing at all.
            if (what.opts & Prep_EVICT) return ask(EVICT, what, error, client);
            if (what.opts & Prep_STAGE) return ask(STAGE, what, error, client);
            return SFS_OK;
        } catch (...) { return no_memory(error); }
    }
    int cancel(XrdSfsPrep &what, XrdOucErrInfo &error, const XrdSecEntity *client) override {
        try {
            return ask(CANCEL, what, error, client);
        } catch (...) { return no_memory(error); }
    }
    int query(XrdSfsPrep &what, XrdOucErrInfo &error, const XrdSecEntity *client) override {
        try {
            return ask(QUERY, what, error, client);
        } catch (...) { return no_memory(error); }
    }

private:
    static int no_memory(XrdOucErrInfo &error) {
        error.setErrInfo(ENOMEM, "no memory");
        return SFS_ERROR;
    }

    static int refuse(XrdOucErrInfo &error, int number, const std::string &why) {
        error.setErrInfo(number == EBUSY || number == ETIMEDOUT ? EAGAIN : number, why.c_str());
        return SFS_ERROR;
    }

    static int ask(Tag tag, XrdSfsPrep &what, XrdOucErrInfo &error, const XrdSecEntity *client) {
        std::string who, paths, answer;
        // A token comes with the first path, if any.
        XrdOucEnv env(what.oinfo && what.oinfo->text ? what.oinfo->text : nullptr, 0, client);
        if (!asker(client, &env, who)) return refuse(error, EACCES, "who it is cannot be told to Kist");
        std::vector<size_t> begins;  // where each path begins in `paths`
        for (XrdOucTList *path = what.paths; path; path = path->next) {
            if (!is_path(path->text))
                return refuse(error, EINVAL, "a path is not text in UTF-8, or too long");
            begins.push_back(paths.size());
            paths += Body().text(path->text).bytes;
        }
        size_t count = begins.size();
        std::string request(what.reqid ? what.reqid : "");
        if (count > PATHS_MAX || request.size() > REQUEST_BYTES_MAX || !is_utf8(request) ||
            paths.size() > IO_BYTES_MAX)
            return refuse(error, EINVAL, "too many paths, or no number of a request");
        if (tag == QUERY) return query_all(Body().raw(who).text(request).bytes, paths, begins, error);
        Body body;
        body.raw(who);
        if (tag == STAGE) body.u32(priority(what.opts));
        if (tag == CANCEL) body.text(request);
        if (tag != CANCEL) body.u16(static_cast<uint16_t>(count)).raw(paths);
        if (Failure failure = call(tag, body.bytes, answer, false))
            return refuse(error, failure.error, failure.why);
        if (tag == STAGE) {
            Fields fields(answer);
            answer = fields.text();
        }
        return tag == STAGE ? tell(error, answer) : SFS_OK;
    }

    // One answer has room for some thousand paths: what is left is asked for again.
    static int query_all(const std::string &head, const std::string &paths, const std::vector<size_t> &begins,
                         XrdOucErrInfo &error) {
        std::string all;
        for (size_t told = 0;;) {
            size_t left = begins.size() - told;
            Body body;
            body.raw(head).u16(static_cast<uint16_t>(left));
            if (left) body.raw(paths.substr(begins[told]));
            std::string answer;
            if (Failure failure = call(QUERY, body.bytes, answer, true))
                return refuse(error, failure.error, failure.why);
            Fields fields(answer);
            size_t more = fields.u32();
            if (fields.bad || (left && (more == 0 || more > left)) || !append(all, answer.substr(4)))
                return refuse(error, EIO, "an answer of Kist about a request cannot be read");
            told += more;
            if (told >= begins.size()) return tell(error, all);
        }
    }

    // Puts the lines of another answer behind those that there are: {"request_id":"17","responses":[...]}.
    static bool append(std::string &all, const std::string &answer) {
        static const std::string BEGIN = "\"responses\":[", END = "]}";
        size_t begin = answer.find(BEGIN);
        if (begin == std::string::npos || answer.compare(answer.size() - END.size(), END.size(), END) != 0)
            return false;
        if (all.empty()) all = answer;
        else all.replace(all.size() - END.size(), END.size(), "," + answer.substr(begin + BEGIN.size()));
        return true;
    }

    static uint32_t priority(int options) {
        switch (options & Prep_PMASK) {
            case Prep_PRTY1:
                return 1;
            case Prep_PRTY2:
                return 2;
            case Prep_PRTY3:
                return 3;
            default:
                return 0;
        }
    }

    static int tell(XrdOucErrInfo &error, const std::string &text) {
        int length = static_cast<int>(text.size());
        if (text.size() < XrdOucEI::Max_Error_Len) {
            error.setErrInfo(length, text.c_str());
            return SFS_DATA;
        }
        char *copy = static_cast<char *>(malloc(text.size() + 1));
        if (!copy) return no_memory(error);
        memcpy(copy, text.c_str(), text.size() + 1);
        XrdOucBuffer *buffer = new XrdOucBuffer(copy, length + 1);
        error.setErrInfo(length, buffer);
        return SFS_DATA;
    }
};

// ---- checksums: those of the catalogue

class Checksums : public XrdCks {
public:
    explicit Checksums(XrdSysError *error) : XrdCks(error) {}
    int Calc(const char *path, XrdCksData &sum, int) override { return Get(path, sum); }
    int Del(const char *, XrdCksData &) override { return -ENOTSUP; }
    int Get(const char *path, XrdCksData &sum) override {
        KIST_BEGIN
            XrdOucEnv *env = sum.envP;
            Entry entry;
            if (!entity(env)) return -EACCES;
            // It comes as Storage::Lfn2Pfn() says.
            if (!strncmp(path, NOWHERE, sizeof NOWHERE - 1)) path += sizeof NOWHERE - 1;
            if (Failure failure = Storage::stat(path, env, entry)) return number(failure);
            if (entry.flags & IS_DIRECTORY) return -EISDIR;
            uint32_t value = !strcmp(sum.Name, "adler32") ? entry.adler32 : entry.crc32c;
            if (strcmp(sum.Name, "adler32") && strcmp(sum.Name, "crc32c")) return -ENOTSUP;
            unsigned char bytes[4];
            for (int n = 0; n < 4; n++) bytes[n] = static_cast<unsigned char>(value >> (24 - 8 * n));
            sum.Set(static_cast<const void *>(bytes), 4);
            sum.fmTime = entry.mtime_ns / 1000000000;
            sum.csTime = 0;
            return 4;
        KIST_END
    }
    int Config(const char *, char *) override { return 1; }
    int Init(const char *, const char *) override { return 1; }
    char *List(const char *, char *buffer, int room, char separator) override {
        if (room < 16) return nullptr;
        snprintf(buffer, room, "adler32%ccrc32c", separator);
        return buffer;
    }
    const char *Name(int number) override {
        return number == 0 ? "adler32" : number == 1 ? "crc32c" : nullptr;
    }
    int Size(const char *name) override {
        return !name || !strcmp(name, "adler32") || !strcmp(name, "crc32c") ? 4 : 0;
    }
    int Set(const char *, XrdCksData &, int) override { return -ENOTSUP; }
    int Ver(const char *path, XrdCksData &sum) override {
        XrdCksData known = sum;
        int got = Get(path, known);
        return got < 0 ? got : known == sum;
    }
};

}  // namespace

// ---- tokens that come by ztn: Kist verifies them in every call, so that XRootD need not know their issuers.
// The class is that of XrdSciTokens/XrdSciTokensHelper.hh, which no package has.

class XrdSciTokensHelper {
public:
    struct ValidIssuer {
        std::string issuer_name, issuer_url;
    };
    typedef std::vector<ValidIssuer> Issuers;
    virtual Issuers IssuerList() = 0;
    virtual bool Validate(const char *token, std::string &why, long long *expires = nullptr,
                          XrdSecEntity *entity = nullptr) = 0;
    virtual ~XrdSciTokensHelper() {}
};

namespace {

class Tokens : public XrdSciTokensHelper {
public:
    Issuers IssuerList() override { return Issuers(); }
    bool Validate(const char *token, std::string &why, long long *expires, XrdSecEntity *) override {
        if (expires) *expires = 0;
        if (strlen(token) <= TOKEN_BYTES_MAX) return true;
        why = "the token is too long";
        return false;
    }
} tokens;

}  // namespace

// ---- entry points

extern "C" {

XrdSciTokensHelper *SciTokensHelper = &tokens;

XrdOss *XrdOssGetStorageSystem2(XrdOss *, XrdSysLogger *logger, const char *file, const char *, XrdOucEnv *) {
    return configure(logger, file) ? new (std::nothrow) Storage : nullptr;
}

XrdAccAuthorize *XrdAccAuthorizeObject(XrdSysLogger *logger, const char *file, const char *) {
    if (!configure(logger, file)) return nullptr;
    authorises = true;
    return new (std::nothrow) Authorisation;
}

XrdOfsPrepare *XrdOfsgetPrepare(XrdSysError *error, const char *file, const char *, XrdSfsFileSystem *,
                                XrdOss *, XrdOucEnv *) {
    return configure(error ? error->logger() : nullptr, file) ? new (std::nothrow) Prepare : nullptr;
}

XrdCks *XrdCksInit(XrdSysError *error, const char *file, const char *) {
    return configure(error ? error->logger() : nullptr, file) ? new (std::nothrow) Checksums(error) : nullptr;
}
}

XrdVERSIONINFO(XrdOssGetStorageSystem2, Kist);
XrdVERSIONINFO(XrdAccAuthorizeObject, Kist);
XrdVERSIONINFO(XrdOfsgetPrepare, Kist);
XrdVERSIONINFO(XrdCksInit, Kist);
XrdVERSIONINFO(SciTokensHelper, Kist);
