#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <map>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace cove::files {

struct Metadata {
  mode_t mode = 0;
  std::time_t mtime = 0;  // 0 is now
};

// A tree being built in a hidden directory inside its destination, to be moved into place when it is complete. Paths
// are those of member_path(). The destructor removes whatever has not been moved, so nothing is left on any way out.
class Staging {
 public:
  // `dest_fd` is borrowed for the object's life.
  static Result<Staging> create(int dest_fd, std::size_t max_entries);
  Staging(Staging&&) noexcept = default;
  Staging& operator=(Staging&&) = delete;
  ~Staging();

  // A name that comes again replaces the earlier one; only a directory that has something in it cannot become
  // something else. A link is never walked through: Errc::invalid.
  Result<> add_directory(const std::string& path, Metadata metadata);
  Result<UniqueFd> add_file(const std::string& path);
  Result<> add_symlink(const std::string& path, const std::string& target, std::time_t mtime);
  Result<> add_hard_link(const std::string& path, const std::string& target);

  // Looks at the destination first, and moves nothing when anything is in the way: Errc::invalid. Directories merge,
  // anything else replaces what is not a directory.
  Result<> commit();
  [[nodiscard]] std::size_t files() const;

 private:
  enum class Kind { directory, file, symlink };
  enum class Fate { move, merge, carried };  // carried: goes with the directory it is in
  struct Entry {
    Kind kind = Kind::directory;
    Metadata metadata;
    bool has_metadata = false;
    std::string target;
    Fate fate = Fate::carried;
  };
  // The directory used last: members of one directory tend to follow one another.
  struct OpenDirectory {
    std::string path;
    UniqueFd fd;
  };

  Staging(int dest_fd, std::string name, UniqueFd dir, std::size_t max_entries);
  Result<> note(const std::string& path, Entry entry);
  Result<int> parent_fd(const std::string& path);
  Result<int> room_for(const std::string& path, Kind kind);
  Result<> check_link(const std::string& path, const Entry& entry) const;
  Result<> plan();
  Result<Fate> fate_of(const std::string& path, const Entry& entry);
  Result<> move(const std::string& path);
  Result<> settle_directory(const std::string& path, const Metadata& metadata);

  int dest_fd_;
  std::string name_;
  UniqueFd dir_;  // none once moved from
  std::size_t max_entries_;
  std::size_t name_bytes_ = 0;
  std::map<std::string, Entry, std::less<>> entries_;
  OpenDirectory staged_;
  OpenDirectory placed_;
};

Result<> set_mtime(int fd, std::time_t mtime);

}  // namespace cove::files
