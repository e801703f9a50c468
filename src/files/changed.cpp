#include "files/changed.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "files/json.hpp"
#include "files/location.hpp"
#include "files/walk.hpp"

namespace cove::files {
namespace {

constexpr std::size_t kMaxSeen = 20'000;

std::int64_t nanoseconds(std::int64_t seconds, std::int64_t rest) {
  return seconds * 1'000'000'000 + rest;
}

bool passed_over(const std::string& name) {
  return name.starts_with('.') || name == "__pycache__" || name == "node_modules";
}

// Where the filesystem does not know, it was there before.
bool born_since(int dir_fd, const std::string& name, std::int64_t since_ns) {
  struct statx found{};
  if (::statx(dir_fd, name.c_str(), AT_SYMLINK_NOFOLLOW, STATX_BTIME, &found) != 0) return false;
  return (found.stx_mask & STATX_BTIME) != 0 &&
         nanoseconds(found.stx_btime.tv_sec, found.stx_btime.tv_nsec) >= since_ns;
}

}  // namespace

std::string mark_of(const struct stat& st) {
  return fmt::format("{}-{}-{}", nanoseconds(st.st_ctim.tv_sec, st.st_ctim.tv_nsec), st.st_ino, st.st_size);
}

Result<Changes> changes_below(const std::string& root, const ChangesWanted& wanted) {
  COVE_TRY(auto directory, open_path(root, O_RDONLY | O_DIRECTORY | O_NONBLOCK));
  COVE_TRY(auto walk, Walk::start(std::move(directory)));
  Changes changes;
  std::size_t seen = 0;
  while (const auto* step = walk.next()) {
    if (step->event == Walk::Event::leaving || passed_over(step->name)) continue;
    if (++seen > kMaxSeen || changes.files.size() > wanted.most) break;
    if (S_ISDIR(step->st.st_mode)) static_cast<void>(walk.descend().has_value());  // one that cannot be read is empty
    if (!S_ISREG(step->st.st_mode)) continue;
    auto path = std::string(step->path);
    auto mark = mark_of(step->st);
    const auto known = wanted.known.find(path);
    const bool as_it_was = known != wanted.known.end() && known->second == mark;
    if (as_it_was || nanoseconds(step->st.st_ctim.tv_sec, step->st.st_ctim.tv_nsec) < wanted.since_ns) continue;
    changes.files.push_back(
        {.path = std::move(path),
         .size = static_cast<std::uint64_t>(step->st.st_size),
         .created = known == wanted.known.end() && born_since(step->dir_fd, step->name, wanted.since_ns),
         .mark = std::move(mark)});
  }
  if (changes.files.size() > wanted.most) {
    changes.files.resize(wanted.most);
    changes.more = true;
  }
  changes.more = changes.more || seen > kMaxSeen;
  std::ranges::sort(changes.files, {}, &Changed::path);
  return changes;
}

std::string to_json(const Changes& changes) {
  std::string json = R"({"files":[)";
  for (const auto& file : changes.files) {
    if (json.back() == '}') json += ',';
    json += fmt::format(R"({{"path":{},"size":{},"created":{},"mark":"{}"}})", json_string(file.path), file.size,
                        file.created, file.mark);
  }
  return json + (changes.more ? R"(],"more":true})" : R"(],"more":false})");
}

}  // namespace cove::files
