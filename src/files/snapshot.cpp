#include "files/snapshot.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/io.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "files/byte_reader.hpp"
#include "files/json.hpp"
#include "files/location.hpp"
#include "files/names.hpp"
#include "files/stop.hpp"
#include "files/walk.hpp"

namespace cove::files {
namespace {

constexpr std::size_t kChunk = 128U << 10;
constexpr std::string_view kEntrypoint = "__main__.py";

// It is the owner who asks: what it may not read it may make readable.
UniqueFd open_regular(const Walk::Step& step, struct stat& st) {
  constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  UniqueFd fd(::openat(step.dir_fd, step.name.c_str(), kFlags));
  if (!fd && errno == EACCES && ::fchmodat(step.dir_fd, step.name.c_str(), (step.st.st_mode & 0777) | S_IRUSR, 0) == 0)
    fd.reset(::openat(step.dir_fd, step.name.c_str(), kFlags));
  if (!fd || ::fstat(fd.get(), &st) != 0 || !S_ISREG(st.st_mode)) return {};
  return fd;
}

class Taking {
 public:
  Taking(const Known& known, int out_fd, const SnapshotLimits& limits)
      : known_(known), out_fd_(out_fd), room_(limits.max_bytes), files_left_(limits.max_files), chunk_(kChunk) {}

  Result<> take(const Walk::Step& step) {
    const auto before = known_.find(step.path);
    // Those past the limit are only counted: there may be very many.
    if (files_left_ == 0 && before == known_.end()) {
      ++left_out_;
      return {};
    }
    struct stat st{};
    const auto fd = open_regular(step, st);
    if (!fd || step.path.size() > kMaxPathBytes) {
      ++left_out_;
      return {};
    }
    const auto size = static_cast<std::uint64_t>(st.st_size);
    if (before != known_.end()) {
      COVE_TRY(const bool same, has_digest(fd.get(), before->second));
      if (same) return {};
    }
    if (size > room_ || files_left_ == 0) {
      ++left_out_;
      return {};
    }
    room_ -= size;
    --files_left_;
    COVE_CHECK(write_all(out_fd_, json_string(step.path) + "\n"));
    COVE_CHECK(send(fd.get(), size));
    return write_all(out_fd_, "0\n");
  }

  Result<> finish() { return write_all(out_fd_, fmt::format("end {}\n", left_out_)); }

 private:
  Result<std::size_t> read_some(int fd, std::uint64_t most) {
    while (true) {
      const auto n = ::read(fd, chunk_.data(), static_cast<std::size_t>(std::min<std::uint64_t>(most, chunk_.size())));
      if (stop_requested != 0) return fail(Errc::unavailable, "asked to stop");
      if (n >= 0) return static_cast<std::size_t>(n);
      if (errno != EINTR) return std::size_t{0};  // what cannot be read is not there
    }
  }

  Result<bool> has_digest(int fd, const std::string& digest) {
    Sha256 hash;
    while (true) {
      COVE_TRY(const auto n, read_some(fd, kChunk));
      if (n == 0) break;
      hash.add({chunk_.data(), n});
    }
    ::lseek(fd, 0, SEEK_SET);
    return hash.hex() == digest;
  }

  // No more than it had when it was opened: it may grow as fast as it is read.
  Result<> send(int fd, std::uint64_t size) {
    while (size > 0) {
      COVE_TRY(const auto n, read_some(fd, size));
      if (n == 0) break;
      COVE_CHECK(write_all(out_fd_, fmt::format("{}\n", n)));
      COVE_CHECK(write_all(out_fd_, {chunk_.data(), n}));
      size -= n;
    }
    return {};
  }

  const Known& known_;
  int out_fd_;
  std::uint64_t room_;
  std::uint64_t files_left_;
  std::uint64_t left_out_ = 0;
  std::vector<char> chunk_;
};

}  // namespace

Result<Known> read_known(int in_fd) {
  ByteReader reader(in_fd);
  Known known;
  while (true) {
    COVE_TRY(const auto line, reader.line());
    if (line == "end") return known;
    std::string_view rest = line;
    const std::string digest(take_until(rest, ' '));
    std::size_t length = 0;
    const auto [end, ec] = std::from_chars(rest.data(), rest.data() + rest.size(), length);
    if (ec != std::errc() || end != rest.data() + rest.size() || length > kMaxPathBytes)
      return fail(Errc::invalid, fmt::format("{} is not a length of a path", shown(rest)));
    COVE_TRY(const auto path, reader.bytes(length));
    known[path] = digest;
  }
}

Result<> snapshot(const std::string& root, const Known& known, int out_fd, const SnapshotLimits& limits) {
  COVE_TRY(auto dir, open_path(root, O_RDONLY | O_DIRECTORY | O_NONBLOCK));
  COVE_TRY(auto walk, Walk::start(std::move(dir)));
  Taking taking(known, out_fd, limits);
  while (const auto* step = walk.next()) {
    if (stop_requested != 0) return fail(Errc::unavailable, "asked to stop");
    if (step->event == Walk::Event::leaving) continue;
    if (S_ISREG(step->st.st_mode) && step->name != kEntrypoint) COVE_CHECK(taking.take(*step));
    if (!S_ISDIR(step->st.st_mode)) continue;
    if ((step->st.st_mode & 0500) != 0500)
      static_cast<void>(::fchmodat(step->dir_fd, step->name.c_str(), (step->st.st_mode & 0777) | 0500, 0));
    static_cast<void>(walk.descend().has_value());  // one that has just gone holds nothing
  }
  return taking.finish();
}

}  // namespace cove::files
