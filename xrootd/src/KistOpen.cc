#include "KistOpen.hh"

#include <errno.h>
#include <unistd.h>

namespace kist {

std::unique_ptr<Reader> Reader::open(const std::string &asker, const std::string &path, Failure &failure) {
    std::string body = Body().raw(asker).text(path).bytes, answer;
    for (int attempt = 0; attempt < 2; attempt++) {
        std::unique_ptr<Reader> reader(new Reader);
        failure = Failure();
        reader->link = attempt == 0 ? Link::get(failure) : Link::connect(failure);
        if (!reader->link) return nullptr;
        failure = reader->link->ask(OPEN, body, answer);
        if (!failure) {
            Fields fields(answer);
            reader->entry = Entry::read(fields);
            return reader;
        }
        if (!failure.link) {
            Link::put_back(std::move(reader->link));
            return nullptr;
        }
    }
    return nullptr;
}

void Reader::close(std::unique_ptr<Reader> reader) {
    std::string answer;
    if (reader && reader->link && !reader->link->ask(CLOSE, std::string(), answer))
        Link::put_back(std::move(reader->link));
}

OpenFiles &open_files() {
    static OpenFiles the;
    return the;
}

std::atomic<bool> authorises{false};

void OpenFiles::settle(std::map<std::string, Counts>::iterator at) {
    const Counts &of = at->second;
    if (of.readers == 0 && of.refused == 0 && of.arriving == 0 && of.writer == 0) counts.erase(at);
}

bool OpenFiles::arrive(const std::string &path, uint64_t file, uint64_t moment) {
    std::lock_guard<std::mutex> held(mutex);
    Counts &of = counts[path];
    of.arriving++;
    if (moment > of.found_at) {
        of.found = file;
        of.found_at = moment;
    }
    return of.readers > 0 && of.opened != file;
}

void OpenFiles::leave(const std::string &path) {
    std::lock_guard<std::mutex> held(mutex);
    auto at = counts.find(path);
    if (at == counts.end()) return;
    if (--at->second.arriving == 0) at->second.found = at->second.found_at = 0;
    settle(at);
}

OpenFiles::Added OpenFiles::add_reader(const std::string &path, uint64_t file, uint64_t moment) {
    std::lock_guard<std::mutex> held(mutex);
    auto at = counts.emplace(path, Counts()).first;
    Counts &of = at->second;
    bool late = std::chrono::steady_clock::now() - of.refused_since > ON_THE_WAY_MAX;
    bool replaced = of.found_at > moment && of.found != file;
    Added added = of.refused != 0 && !late ? BUSY : replaced ? REPLACED : OPENED;
    if (added == OPENED) {
        of.readers++;
        of.opened = file;
    }
    settle(at);
    return added;
}

void OpenFiles::remove_reader(const std::string &path) {
    std::lock_guard<std::mutex> held(mutex);
    auto at = counts.find(path);
    if (at == counts.end()) return;
    at->second.readers--;
    settle(at);
}

bool OpenFiles::add_refused(const std::string &path) {
    std::lock_guard<std::mutex> held(mutex);
    auto at = counts.emplace(path, Counts()).first;
    bool free = at->second.readers == 0;
    if (free) {
        at->second.refused++;
        at->second.refused_since = std::chrono::steady_clock::now();
    }
    settle(at);
    return free;
}

void OpenFiles::remove_refused(const std::string &path) {
    std::lock_guard<std::mutex> held(mutex);
    auto at = counts.find(path);
    if (at == counts.end()) return;
    at->second.refused--;
    settle(at);
}

uint64_t OpenFiles::add_writer(const std::string &path, bool &is_open) {
    std::lock_guard<std::mutex> held(mutex);
    auto at = counts.emplace(path, Counts()).first;
    auto now = std::chrono::steady_clock::now();
    is_open = at->second.writer != 0 && at->second.writer_is_open;
    bool gone = !is_open && now - at->second.writer_since > WRITER_ON_THE_WAY_MAX;
    if (at->second.writer != 0 && !gone) return 0;
    at->second.writer = ++last_writer;
    at->second.writer_since = now;
    at->second.writer_is_open = false;
    return last_writer;
}

bool OpenFiles::keep_writer(const std::string &path, uint64_t number) {
    std::lock_guard<std::mutex> held(mutex);
    auto at = counts.find(path);
    if (at == counts.end() || at->second.writer != number) return false;
    at->second.writer_is_open = true;
    return true;
}

void OpenFiles::remove_writer(const std::string &path, uint64_t number) {
    std::lock_guard<std::mutex> held(mutex);
    auto at = counts.find(path);
    if (at == counts.end() || at->second.writer != number) return;
    at->second.writer = 0;
    settle(at);
}

Pending &pending() {
    static thread_local Pending the;
    return the;
}

void Pending::reset() {
    if (kind == NONE && fifo.empty() && !reader) return;
    if (kind == READ && failure) open_files().remove_refused(path);
    if (arrives) open_files().leave(path);
    arrives = false;
    if (kind == WRITE) open_files().remove_writer(path, writer);
    if (!fifo.empty()) unlink(fifo.c_str());
    if (reader) Reader::close(std::move(reader));
    kind = NONE;
    path.clear();
    fifo.clear();
    failure = Failure();
}

uint64_t Pending::take_writer(const std::string &of) {
    if (kind != WRITE || path != of || !open_files().keep_writer(path, writer)) return 0;
    kind = NONE;
    return writer;
}

}  // namespace kist
