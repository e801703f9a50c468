#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace cove::doctor {

// The host as the checks see it. A value: a test fills one in, with a directory of its own as `root`.
struct Host {
  struct Storage {
    std::string path;
    std::uint64_t free_bytes = 0;
    std::uint64_t free_inodes = 0;
    bool counts_inodes = true;  // some filesystems have as many as they have room for
  };
  struct Descriptors {
    std::uint64_t soft = 0;
    std::uint64_t hard = 0;
  };
  using Version = std::pair<int, int>;

  std::string root;  // stands before every path that is read; empty on the machine itself
  uid_t uid = 0;
  std::string user_name;
  int landlock_abi = 0;
  std::vector<std::string> open_families;  // of those that should not be: "AF_VSOCK"
  Descriptors descriptors;
  Storage state;

  // `path` without its leading slash. Without the newline at the end; Errc::not_found, Errc::denied.
  [[nodiscard]] Result<std::string> read(const std::string& path) const;
  [[nodiscard]] bool has(const std::string& path) const;
  [[nodiscard]] bool can_run(const std::string& path) const;
  [[nodiscard]] std::string release() const;
  [[nodiscard]] Version kernel() const;  // {6, 18}; {0, 0} when unknown
};

Host this_host(const std::string& state_dir);

}  // namespace cove::doctor
