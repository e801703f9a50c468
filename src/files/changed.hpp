#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace cove::files {

struct Changed {
  std::string path;  // relative to the root
  std::uint64_t size = 0;
  bool created = false;  // else it was there before
  std::string mark;
};

struct Changes {
  std::vector<Changed> files;  // in the order of their paths
  bool more = false;           // there are others, or there was too much to look at
};

struct ChangesWanted {
  std::int64_t since_ns = 0;  // by the kernel's coarse clock: no file that is written later has an earlier time
  std::size_t most = 100;
  std::map<std::string, std::string> known = {};  // path to mark: files that are not meant while they are as they were
};

// Differs for what was written again, in all likelihood: times go in ticks.
std::string mark_of(const struct stat& st);

// Regular files below `root` that were written since then, whatever time they say they have. Links are not followed;
// what is hidden, and what tools keep for themselves (__pycache__, node_modules), is passed over.
Result<Changes> changes_below(const std::string& root, const ChangesWanted& wanted);
std::string to_json(const Changes& changes);

}  // namespace cove::files
