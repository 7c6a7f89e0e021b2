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
        if (!failure.link) { Link::put_back(std::move(reader->link)); return nullptr; }
    }
    return nullptr;
}

void Reader::close(std::unique_ptr<Reader> reader) {
    std::string answer;
    if (reader && reader->link && !reader->link->ask(CLOSE, std::string(), answer)) Link::put_back(std::move(reader->link));
}

OpenFiles &open_files() { static OpenFiles the; return the; }

void OpenFiles::settle(std::map<std::string, Counts>::iterator at) {
    if (at->second.readers == 0 && at->second.refused == 0 && at->second.writers == 0) counts.erase(at);
}

bool OpenFiles::add_reader(const std::string &path) {
    std::lock_guard<std::mutex> held(mutex);
    auto at = counts.emplace(path, Counts()).first;
    bool free = at->second.refused == 0;
    if (free) at->second.readers++;
    settle(at);
    return free;
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
    if (free) at->second.refused++;
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

bool OpenFiles::add_writer(const std::string &path) {
    std::lock_guard<std::mutex> held(mutex);
    auto at = counts.emplace(path, Counts()).first;
    bool free = at->second.writers == 0;
    if (free) at->second.writers++;
    settle(at);
    return free;
}

void OpenFiles::remove_writer(const std::string &path) {
    std::lock_guard<std::mutex> held(mutex);
    auto at = counts.find(path);
    if (at == counts.end()) return;
    at->second.writers--;
    settle(at);
}

Pending &pending() { static thread_local Pending the; return the; }

void Pending::reset() {
    if (kind == READ && failure) open_files().remove_refused(path);
    if (kind == WRITE) open_files().remove_writer(path);
    if (!fifo.empty()) unlink(fifo.c_str());
    if (reader) Reader::close(std::move(reader));
    kind = NONE;
    path.clear();
    fifo.clear();
    failure = Failure();
}

bool Pending::take_writer(const std::string &of) {
    if (kind != WRITE || path != of) return false;
    kind = NONE;
    return true;
}

}  // namespace kist
