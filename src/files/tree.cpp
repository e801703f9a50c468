#include "files/tree.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "files/location.hpp"
#include "files/names.hpp"
#include "files/walk.hpp"

namespace cove::files {
namespace {

tl::unexpected<Error> not_found(const std::string& path) {
  return tl::unexpected<Error>(
      Error{.code = Errc::not_found, .message = fmt::format("path not found: {}", path), .sys_errno = ENOENT});
}

Result<Entry> entry_at(const Location& location, const std::string& path) {
  const auto st = stat_at(location.dir.get(), location.name);
  if (!st && st.error().sys_errno == ENOENT) return not_found(path);
  if (!st) return tl::unexpected<Error>(st.error());
  return make_entry(path, location.dir.get(), location.name, *st);
}

// What has no name to be found by: "/", and paths that end in "..".
bool nameless(const std::string& path) {
  return path == "/" || base_name(path) == "..";
}

Result<Entry> entry_of_directory(const std::string& path, int fd) {
  COVE_TRY(const auto st, stat_fd(fd));
  return make_entry(path, fd, "", st);
}

// The same directory under whatever name.
bool is_same_directory(int dir_fd, const std::string& name, const char* other) {
  struct stat a{};
  struct stat b{};
  return ::fstatat(dir_fd, name.c_str(), &a, AT_SYMLINK_NOFOLLOW) == 0 && ::stat(other, &b) == 0 &&
         S_ISDIR(a.st_mode) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

}  // namespace

Result<Entry> stat_path(const std::string& path) {
  if (nameless(path)) {
    COVE_TRY(const auto fd, open_path(path, O_PATH | O_DIRECTORY));
    return entry_of_directory(path, fd.get());
  }
  COVE_TRY(const auto location, locate(path, Parents::must_exist));
  return entry_at(location, path);
}

Result<Listing> list_tree(const std::string& path, std::size_t depth, std::size_t max_entries) {
  auto root = open_path(path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
  if (!root && root.error().sys_errno == ENOTDIR)
    return fail(Errc::invalid, fmt::format("{} is not a directory", shown(path)));
  if (!root) return tl::unexpected<Error>(root.error());
  const std::string prefix = path == "/" ? path : path + "/";
  COVE_TRY(auto walk, Walk::start(std::move(*root)));
  Listing listing;
  std::size_t bytes = 0;
  while (const auto* step = walk.next()) {
    if (step->event == Walk::Event::leaving) continue;
    const bool full = listing.left_out > 0 || listing.entries.size() == max_entries;
    if (!full) {
      auto entry = make_entry(prefix + std::string(step->path), step->dir_fd, step->name, step->st);
      bytes += to_json(entry).size() + 1;
      if (bytes <= kMaxListingBytes) listing.entries.push_back(std::move(entry));
    }
    if (full || bytes > kMaxListingBytes) ++listing.left_out;
    // One that cannot be read is listed as it is, empty.
    if (S_ISDIR(step->st.st_mode) && step->depth < depth) static_cast<void>(walk.descend().has_value());
  }
  // The walk has "a/x" before "a-b", bytes have it the other way round.
  std::ranges::sort(listing.entries, {}, &Entry::path);
  return listing;
}

std::string to_json(const Listing& listing) {
  std::string json = R"({"entries":[)";
  for (const auto& entry : listing.entries) {
    if (json.back() == '}') json += ',';
    json += to_json(entry);
  }
  if (listing.left_out == 0) return json + R"(],"truncated":false})";
  return json + fmt::format(R"(],"truncated":true,"left_out":{}}})", listing.left_out);
}

Result<Entry> rename_path(const std::string& from, const std::string& to, Overwrite overwrite) {
  COVE_TRY(const auto source, locate(from, Parents::must_exist));
  if (const auto there = entry_at(source, from); !there) return there;
  COVE_TRY(const auto target, locate(to, Parents::must_exist));
  const unsigned flags = overwrite == Overwrite::yes ? 0 : RENAME_NOREPLACE;
  if (::renameat2(source.dir.get(), source.name.c_str(), target.dir.get(), target.name.c_str(), flags) != 0) {
    if (errno == EEXIST && overwrite == Overwrite::no)
      return fail(Errc::exists, fmt::format("{} already exists", shown(to)));
    if (errno == EEXIST) errno = ENOTEMPTY;
    return fail_errno(errno, "rename {} to {}", shown(from), shown(to));
  }
  return entry_at(target, to);
}

Result<Entry> make_directory(const std::string& path) {
  auto made = make_directories(path);
  if (!made && made.error().sys_errno == ENOTDIR)
    return fail(Errc::exists, fmt::format("{} or one of its parents exists and is not a directory", shown(path)));
  if (!made) return tl::unexpected<Error>(made.error());
  return entry_of_directory(path, made->dir.get());
}

Result<Entry> make_link(const std::string& path, const std::string& target) {
  COVE_TRY(const auto location, locate(path, Parents::make));
  if (::symlinkat(target.c_str(), location.dir.get(), location.name.c_str()) != 0)
    return fail_errno(errno, "link {}", shown(path));
  COVE_TRY(const auto st, stat_at(location.dir.get(), location.name));
  return make_entry(path, location.dir.get(), location.name, st);
}

Result<> remove_path(const std::string& path, Recursive recursive) {
  COVE_TRY(const auto location, locate(path, Parents::must_exist));
  for (const char* kept : {"/", "/workspace"}) {
    if (is_same_directory(location.dir.get(), location.name, kept))
      return fail(Errc::invalid, fmt::format("{} itself is not removed", shown(path)));
  }
  COVE_TRY(const auto entry, entry_at(location, path));
  if (recursive == Recursive::yes) return remove_tree(location.dir.get(), location.name);
  const int flags = entry.type == "directory" ? AT_REMOVEDIR : 0;
  if (::unlinkat(location.dir.get(), location.name.c_str(), flags) != 0) {
    if (errno == ENOTEMPTY || errno == EEXIST)
      return fail(Errc::invalid, fmt::format("{} is a directory that has something in it", shown(path)));
    return fail_errno(errno, "remove {}", shown(path));
  }
  return {};
}

}  // namespace cove::files
