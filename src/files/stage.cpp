#include "files/stage.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "base/io.hpp"
#include "base/text.hpp"
#include "files/byte_reader.hpp"
#include "files/changed.hpp"
#include "files/location.hpp"
#include "files/names.hpp"
#include "files/staging.hpp"

namespace cove::files {
namespace {

constexpr std::size_t kMaxDepth = 256;

struct Head {
  std::uint64_t size = 0;
  std::uint64_t path_length = 0;
};

Result<Head> parse_head(std::string_view line) {
  const auto number = [](std::string_view text) -> Result<std::uint64_t> {
    std::uint64_t value = 0;
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (ec != std::errc() || end != text.data() + text.size())
      return fail(Errc::invalid, fmt::format("{} is not a number", shown(text)));
    return value;
  };
  Head head;
  COVE_TRY(head.size, number(take_until(line, ' ')));
  COVE_TRY(head.path_length, number(line));
  if (head.path_length > kMaxPathBytes)
    return fail(Errc::invalid, fmt::format("a path is longer than {} bytes", kMaxPathBytes));
  return head;
}

// The directory that holds the last component of `path`; those on the way are made.
Result<UniqueFd> open_parent(int root, std::string_view path) {
  COVE_TRY(auto dir, open_beneath(root, "", O_PATH | O_DIRECTORY));
  for (auto slash = path.find('/'); slash != std::string_view::npos; slash = path.find('/')) {
    const std::string part(path.substr(0, slash));
    path.remove_prefix(slash + 1);
    if (::mkdirat(dir.get(), part.c_str(), 0755) != 0 && errno != EEXIST)
      return fail_errno(errno, "make directory {}", shown(part));
    auto next = open_beneath(dir.get(), part, O_PATH | O_DIRECTORY);
    if (!next && (next.error().sys_errno == ENOTDIR || next.error().sys_errno == ELOOP))
      return fail(Errc::invalid, fmt::format("{} is a file and a directory at once", shown(part)));
    if (!next) return tl::unexpected<Error>(next.error());
    dir = std::move(*next);
  }
  return dir;
}

// The mark of what was written.
Result<std::string> stage_one(ByteReader& reader, int root, const std::string& path, std::uint64_t size,
                              StagedTime time) {
  COVE_TRY(const auto parent, open_parent(root, path));
  const std::string name(base_name(path));
  if (::unlinkat(parent.get(), name.c_str(), 0) != 0 && errno == EISDIR)
    return fail(Errc::invalid, fmt::format("{} is a file and a directory at once", shown(path)));
  COVE_TRY(const auto file, open_beneath(parent.get(), name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644));
  while (size > 0) {
    COVE_TRY(const auto piece, reader.some(static_cast<std::size_t>(std::min<std::uint64_t>(size, SIZE_MAX))));
    if (const auto written = write_all(file.get(), piece); !written)
      return fail_errno(written.error().sys_errno, "write {}", shown(path));
    size -= piece.size();
  }
  const timespec none[2] = {{}, {}};
  if (::fchmod(file.get(), 0644) != 0 || (time == StagedTime::zero && ::futimens(file.get(), none) != 0))
    return fail_errno(errno, "set the time of {}", shown(path));
  COVE_TRY(const auto st, stat_fd(file.get()));
  return mark_of(st);
}

}  // namespace

Result<Staged> stage(int in_fd, const std::string& root, StagedTime time) {
  COVE_TRY(const auto dir, open_path(root, O_PATH | O_DIRECTORY));
  ByteReader reader(in_fd);
  Staged staged;
  while (true) {
    COVE_TRY(const auto line, reader.line());
    if (line == "end") return staged;
    COVE_TRY(const auto head, parse_head(line));
    COVE_TRY(const auto given, reader.bytes(static_cast<std::size_t>(head.path_length)));
    COVE_TRY(const auto path, member_path(given, kMaxDepth));
    if (path.empty()) return fail(Errc::invalid, "a path is empty");
    COVE_TRY(auto mark, stage_one(reader, dir.get(), path, head.size, time));
    staged.marks.push_back(std::move(mark));
    ++staged.files;
    staged.bytes += head.size;
  }
}

}  // namespace cove::files
