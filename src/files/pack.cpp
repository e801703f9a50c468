#include "files/pack.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <ctime>
#include <memory>
#include <optional>
#include <vector>

#include "base/io.hpp"
#include "files/entry.hpp"
#include "files/location.hpp"
#include "files/names.hpp"
#include "files/stop.hpp"
#include "files/walk.hpp"

namespace cove::files {
namespace {

constexpr std::size_t kPackChunk = 128U << 10;

struct FreeWriter {
  void operator()(struct archive* writer) const { archive_write_free(writer); }
};
struct FreeEntry {
  void operator()(struct archive_entry* entry) const { archive_entry_free(entry); }
};

class TarWriter {
 public:
  explicit TarWriter(int out_fd)
      : out_fd_(out_fd), writer_(archive_write_new()), entry_(archive_entry_new()), chunk_(kPackChunk) {}
  ~TarWriter() {
    // Without its end the archive tells its reader that it failed.
    if (writer_ && !finished_) archive_write_fail(writer_.get());
  }
  TarWriter(const TarWriter&) = delete;
  TarWriter& operator=(const TarWriter&) = delete;

  Result<> open() {
    if (!writer_ || !entry_) return fail(Errc::io, "no memory to write an archive with");
    // libarchive takes names to be in the locale's character set. Where this one is missing, names beyond ASCII are
    // marked as bytes of no known set: readable all the same, though GNU tar remarks on it.
    std::setlocale(LC_CTYPE, "C.UTF-8");
    auto* writer = writer_.get();
    // Restricted: extended headers only where a name or a size needs one.
    const bool ready = archive_write_set_format_pax_restricted(writer) == ARCHIVE_OK &&
                       archive_write_add_filter_gzip(writer) == ARCHIVE_OK &&
                       archive_write_set_options(writer, "gzip:compression-level=1,gzip:!timestamp") == ARCHIVE_OK &&
                       archive_write_set_bytes_per_block(writer, kPackChunk) == ARCHIVE_OK &&
                       archive_write_set_bytes_in_last_block(writer, 1) == ARCHIVE_OK &&
                       archive_write_open(writer, this, nullptr, &TarWriter::pass_on, nullptr) == ARCHIVE_OK;
    return ready ? Result<>() : failure();
  }

  Result<> add(std::string_view path, const struct stat& st, const std::string& target = {}) {
    auto* entry = archive_entry_clear(entry_.get());
    archive_entry_set_pathname(entry, std::string(path).c_str());
    archive_entry_set_filetype(entry, st.st_mode & S_IFMT);
    archive_entry_set_perm(entry, st.st_mode & 0777);
    archive_entry_set_mtime(entry, std::max<std::time_t>(0, st.st_mtim.tv_sec), 0);
    archive_entry_set_size(entry, S_ISREG(st.st_mode) ? st.st_size : 0);
    if (S_ISLNK(st.st_mode)) archive_entry_set_symlink(entry, target.c_str());
    // A warning is about the character set of a name, which is written as it is.
    const int status = archive_write_header(writer_.get(), entry);
    return status == ARCHIVE_OK || status == ARCHIVE_WARN ? Result<>() : failure();
  }

  // As many bytes as the header said: what the file has lost is zeros, what it has gained is left out.
  Result<> add_content(int fd, std::uint64_t size) {
    while (size > 0) {
      const auto n = ::read(fd, chunk_.data(), std::min<std::uint64_t>(chunk_.size(), size));
      if (stop_requested != 0) return fail(Errc::unavailable, "asked to stop");
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      if (archive_write_data(writer_.get(), chunk_.data(), static_cast<std::size_t>(n)) < 0) return failure();
      size -= static_cast<std::uint64_t>(n);
    }
    return archive_write_finish_entry(writer_.get()) == ARCHIVE_OK ? Result<>() : failure();
  }

  Result<> finish() {
    if (archive_write_close(writer_.get()) != ARCHIVE_OK) return failure();
    finished_ = true;
    return {};
  }

 private:
  static la_ssize_t pass_on(struct archive* writer, void* self, const void* bytes, std::size_t size) {
    auto& me = *static_cast<TarWriter*>(self);
    const auto written = write_all(me.out_fd_, {static_cast<const char*>(bytes), size});
    if (written) return static_cast<la_ssize_t>(size);
    me.write_error_ = written.error();
    archive_set_error(writer, written.error().sys_errno, "%s", written.error().message.c_str());
    return -1;
  }

  Result<> failure() {
    if (write_error_) return tl::unexpected<Error>(*write_error_);
    const char* words = archive_error_string(writer_.get());
    return fail(Errc::io, fmt::format("write the archive: {}", words != nullptr ? words : "unknown"));
  }

  int out_fd_;
  std::unique_ptr<struct archive, FreeWriter> writer_;
  std::unique_ptr<struct archive_entry, FreeEntry> entry_;
  std::vector<char> chunk_;
  std::optional<Error> write_error_;
  bool finished_ = false;
};

// A regular file that may be read; anything else, also one that is no longer what it was, is none.
UniqueFd open_regular(int dir_fd, const std::string& name, struct stat& st) {
  UniqueFd fd(::openat(dir_fd, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!fd || ::fstat(fd.get(), &st) != 0 || !S_ISREG(st.st_mode)) return {};
  return fd;
}

// /proc and /sys may lie below what is packed; their files have no size and some no end.
bool worth_entering(const Walk::Step& step, dev_t& device) {
  if (step.st.st_dev == device) return true;
  const auto fd = open_beneath(step.dir_fd, step.name, O_PATH | O_DIRECTORY);
  if (!fd || pseudo_filesystem(fd->get())) return false;
  device = step.st.st_dev;
  return true;
}

bool leads_to_file(int dir_fd, const std::string& link) {
  struct stat st{};
  return ::fstatat(dir_fd, link.c_str(), &st, 0) == 0 && S_ISREG(st.st_mode);
}

Result<std::uint64_t> content_bytes(const std::string& src, std::uint64_t enough) {
  COVE_TRY(auto root, open_path(src, O_RDONLY | O_DIRECTORY | O_NONBLOCK));
  COVE_TRY(const auto st, stat_fd(root.get()));
  dev_t device = st.st_dev;
  COVE_TRY(auto walk, Walk::start(std::move(root)));
  std::uint64_t bytes = 0;
  while (const auto* step = walk.next()) {
    if (step->event == Walk::Event::leaving) continue;
    if (S_ISREG(step->st.st_mode)) bytes += static_cast<std::uint64_t>(step->st.st_size);
    if (bytes > enough) break;
    if (S_ISDIR(step->st.st_mode) && worth_entering(*step, device)) static_cast<void>(walk.descend().has_value());
  }
  return bytes;
}

class Packing {
 public:
  Packing(int out_fd, const PackLimits& limits)
      : tar_(out_fd), left_(limits.max_bytes), limit_(limits.max_bytes), only_files_(limits.only_files) {}

  Result<> directory(UniqueFd root) {
    COVE_TRY(const auto st, stat_fd(root.get()));
    dev_t device = st.st_dev;
    COVE_TRY(auto walk, Walk::start(std::move(root)));
    COVE_CHECK(tar_.open());
    while (const auto* step = walk.next()) {
      if (stop_requested != 0) return fail(Errc::unavailable, "asked to stop");
      if (step->event == Walk::Event::leaving) continue;
      const auto& entry = step->st;
      if (S_ISREG(entry.st_mode)) {
        COVE_CHECK(add_file(step->dir_fd, step->name, step->path));
      } else if (S_ISLNK(entry.st_mode)) {
        const auto target = read_link(step->dir_fd, step->name);
        if (link_stays_inside(step->path, target) && (!only_files_ || leads_to_file(step->dir_fd, step->name)))
          COVE_CHECK(tar_.add(step->path, entry, target));
      } else if (S_ISDIR(entry.st_mode) && worth_entering(*step, device)) {
        if (!only_files_) COVE_CHECK(tar_.add(std::string(step->path) + "/", entry));
        static_cast<void>(walk.descend().has_value());  // unreadable: an empty directory
      }
    }
    return tar_.finish();
  }

  Result<> file(UniqueFd fd, std::string_view name) {
    COVE_TRY(const auto st, stat_fd(fd.get()));
    COVE_CHECK(tar_.open());
    COVE_CHECK(add_open_file(fd.get(), name, st));
    return tar_.finish();
  }

 private:
  Result<> add_file(int dir_fd, const std::string& name, std::string_view path) {
    struct stat st{};
    const auto fd = open_regular(dir_fd, name, st);
    if (!fd) return {};
    return add_open_file(fd.get(), path, st);
  }

  Result<> add_open_file(int fd, std::string_view path, const struct stat& st) {
    const auto size = static_cast<std::uint64_t>(st.st_size);
    if (size > left_)
      return fail(Errc::over_limit, fmt::format("with {} there are more than {} bytes", shown(path), limit_));
    left_ -= size;
    COVE_CHECK(tar_.add(path, st));
    return tar_.add_content(fd, size);
  }

  TarWriter tar_;
  std::uint64_t left_;
  std::uint64_t limit_;
  bool only_files_;
};

}  // namespace

Result<> pack(const std::string& src, int out_fd, const PackLimits& limits) {
  COVE_TRY(auto root, open_path(src, O_RDONLY | O_NONBLOCK | O_NOCTTY));
  COVE_TRY(const auto st, stat_fd(root.get()));
  if (limits.only_files && !S_ISDIR(st.st_mode))
    return fail(Errc::not_found, fmt::format("{} is no directory", shown(src)));
  if (pseudo_filesystem(root.get()) || !(S_ISDIR(st.st_mode) || S_ISREG(st.st_mode)))
    return fail(Errc::invalid, fmt::format("{} is neither a directory nor a regular file", shown(src)));
  Packing packing(out_fd, limits);
  if (S_ISREG(st.st_mode)) {
    if (static_cast<std::uint64_t>(st.st_size) > limits.max_bytes)
      return fail(Errc::over_limit, fmt::format("{} has more than {} bytes", shown(src), limits.max_bytes));
    return packing.file(std::move(root), base_name(src));
  }
  // Looked at once before, since a refusal is of use only before the first byte.
  if (limits.max_bytes != PackLimits{}.max_bytes) {
    COVE_TRY(const auto bytes, content_bytes(src, limits.max_bytes));
    if (bytes > limits.max_bytes)
      return fail(Errc::over_limit, fmt::format("{} holds more than {} bytes", shown(src), limits.max_bytes));
  }
  return packing.directory(std::move(root));
}

}  // namespace cove::files
