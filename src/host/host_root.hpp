#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace cove::host {

// What a sandbox's root is made of, as the host sees it.
struct RootSource {
  struct HostTree {
    std::string host_path;  // "/usr"
    std::string target;     // "usr"
  };
  std::string lower_path;
  UniqueFd lower_lock;  // shared flock: nobody sweeps this root away while it is held
  UniqueFd
      lower_mount;  // a detached copy of lower_path when we could make one before giving up privilege; else by path
  std::vector<HostTree> trees;
};

// The roots that were built and those that will be: the directory that holds them, seen from the keeper's root as it is
// then.
struct TemplateSource {
  std::string path;
  UniqueFd mount;  // a detached read-only copy when we could make one before giving up privilege; else by path
};

// The `host` root: the host's own /usr, read-only, below a small directory with a generated /etc. The directory is kept
// in the state directory under a fingerprint of what it was built from: it is built once, and again after the host has
// changed.
Result<RootSource> prepare_host_root(const std::string& state_dir);

// Makes the directory of the templates, if need be.
Result<TemplateSource> prepare_templates(const std::string& state_dir);

}  // namespace cove::host
