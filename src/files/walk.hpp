#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace cove::files {

// A tree, entry by entry, each directory's names in byte order. Never through a link. Neither the stack nor the number
// of open descriptors grows with the depth, and a path may be longer than the kernel's PATH_MAX. What vanishes or is
// moved away under way is left out.
class Walk {
 public:
  enum class Event { entry, leaving };  // leaving: a directory whose entries have all been seen
  struct Step {
    Event event = Event::entry;
    int dir_fd = -1;        // of the directory that holds `name`; borrowed until the next call
    std::string name;       // one component
    std::string_view path;  // relative to the root of the walk; valid until the next call
    std::size_t depth = 0;  // 1 for what lies directly in the root
    struct stat st{};
  };

  // `root` must be open for reading.
  static Result<Walk> start(UniqueFd root);

  // Null at the end.
  const Step* next();
  // Into the directory of the last step. Fails if it cannot be opened or read any more; the walk then goes on behind
  // it.
  Result<> descend();
  // Borrowed; the directory last descended into.
  [[nodiscard]] int current_fd() const { return levels_.back().fd.get(); }

 private:
  struct Level {
    UniqueFd fd;
    dev_t device = 0;
    ino_t inode = 0;
    std::vector<std::string> names;
    std::size_t next = 0;
    std::size_t path_size = 0;  // of the directory's own path
  };

  static Result<Level> read_level(UniqueFd fd);
  bool reopen(Level& level, int child_fd);
  bool leave();

  std::vector<Level> levels_;
  std::string path_;
  Step step_;
};

// Removes `name` in `dir_fd` and everything below it. Goes on after a failure, and then reports the first.
Result<> remove_tree(int dir_fd, const std::string& name);

}  // namespace cove::files
