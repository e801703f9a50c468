#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace cove::files {

// One file as the API shows it (docs/api.md).
struct Entry {
  std::string path;  // absolute
  std::string type;  // file, directory, symlink, other
  std::uint64_t size = 0;
  std::uint32_t mode = 0;
  timespec mtime{};
  std::string target;  // of a symlink
};

// `name` in `dir_fd`, of which `st` is known, shown under `path`.
Entry make_entry(std::string path, int dir_fd, const std::string& name, const struct stat& st);
std::string to_json(const Entry& entry);
std::string format_mode(std::uint32_t mode);  // "0644"
// "2026-02-28T12:00:00.000Z"
std::string format_time(const timespec& time);

// The content of a link; empty if there is none any more.
std::string read_link(int dir_fd, const std::string& name);

}  // namespace cove::files
