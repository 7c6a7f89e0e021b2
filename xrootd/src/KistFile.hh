// An open file, or directory, of an XRootD server.
#pragma once

#include <atomic>
#include <list>
#include <mutex>
#include <thread>

#include "KistLanes.hh"
#include "XrdOss/XrdOss.hh"

namespace kist {

constexpr size_t LAST_BYTES_MAX = 64 << 10;

class File : public XrdOssDF {
public:
    explicit File(const char *tident) : XrdOssDF(tident, DF_isFile) {}
    ~File() override;
    int Open(const char *path, int flags, mode_t mode, XrdOucEnv &env) override;
    int Close(long long *size = nullptr) override;
    int Fstat(struct stat *buffer) override;
    int Fchmod(mode_t mode) override;
    int Fsync() override;
    int Fsync(XrdSfsAio *aio) override;
    int Ftruncate(unsigned long long size) override;
    ssize_t Read(off_t, size_t) override { return 0; }
    ssize_t Read(void *into, off_t offset, size_t size) override;
    int Read(XrdSfsAio *aio) override;
    ssize_t ReadRaw(void *into, off_t offset, size_t size) override { return Read(into, offset, size); }
    ssize_t ReadV(XrdOucIOVec *pieces, int count) override;
    ssize_t Write(const void *from, off_t offset, size_t size) override;
    int Write(XrdSfsAio *aio) override;

private:
    int open_reading(const char *path, XrdOucEnv &env);
    int open_writing(const char *path, int flags, mode_t mode, XrdOucEnv &env);
    int close_writing(long long *size);
    int finish();
    int fail(const char *what, const Failure &failure);
    // A connection in which this file is open, and not a later one of its name.
    Failure open_lane(Lanes::Held &lane);
    // Asks, and once more on a new connection if that fails: the file is the same, or the client hears of it.
    Failure read_again(Lanes::Held &lane, Tag tag, const std::string &body, char *into, size_t room,
                       size_t &got);
    ssize_t read_at(char *into, uint64_t offset, size_t size);
    ssize_t read_group(const XrdOucIOVec *pieces, size_t count, size_t bytes);
    void pump();
    int pump_from(int in);
    int put(const char *from, uint64_t offset, size_t size);
    Failure send_last();

    enum { CLOSED, READING, WRITING } state = CLOSED;
    std::string path, who;

    // Reading.
    Entry entry;
    Lanes lanes;

    // Writing. `mutex` holds for all of it.
    std::mutex mutex;
    std::unique_ptr<Link> link;
    uint64_t writer = 0;    // its number among all that have the path
    bool persists = false;  // XRootD tells clean ends from others: ofs.persist
    bool complete = false;  // the client has closed it
    int failed = 0;
    std::atomic<uint64_t> written{0};
    // Bytes that go to Kist with the next ones, or with the end of the file: a small file is sent at one go.
    std::string last;
    uint64_t last_at = 0;

    // A third-party copy: the bytes come out of a FIFO.
    std::string fifo;
    std::thread pumping;
    std::atomic<bool> stop{false};
};

class Directory : public XrdOssDF {
public:
    explicit Directory(const char *tident) : XrdOssDF(tident, DF_isDir) {}
    int Opendir(const char *path, XrdOucEnv &env) override;
    int Readdir(char *into, int room) override;
    int StatRet(struct stat *buffer) override {
        wanted = buffer;
        return 0;
    }
    int Close(long long * = nullptr) override {
        page.clear();
        is_open = false;
        return 0;
    }

private:
    Failure next_page();
    struct Line {
        std::string name;
        Entry entry;
    };
    std::list<Line> page;
    std::string path, who, last;
    struct stat *wanted = nullptr;
    bool more = false, is_open = false;
};

// The errno of a failure, negative, for calls whose results XRootD does not take for a wish to wait.
int number(const Failure &failure);

}  // namespace kist
