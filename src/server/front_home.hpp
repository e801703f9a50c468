#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace cove::server {

// <state_dir>/front, the directory of the unprivileged front: its database, the control sockets of sandboxes, the files
// it keeps. Whoever takes the front over decides what lies in it. So root makes the directory, once, gives it to an id
// that belongs to this state directory alone, and from then on neither opens nor reads nor changes anything below it:
// who has business inside becomes its owner first.
class FrontHome {
 public:
  // For whoever has business in it, whosever it is; nullopt when it is not there.
  static Result<std::optional<FrontHome>> find(const std::string& state_dir);
  // Made if it is not there.
  static Result<FrontHome> make(const std::string& state_dir);
  // The same for the server: Errc::denied when what is there is not this user's server's.
  static Result<FrontHome> own(const std::string& state_dir);

  [[nodiscard]] uid_t owner() const { return owner_; }
  [[nodiscard]] const std::string& path() const { return path_; }

  // The calling process takes the owner's identity for good, without any privilege, and gets a path by which that
  // identity reaches the directory. Without root the identity is the caller's and stays so.
  [[nodiscard]] Result<std::string> enter() const;

  // Runs `work` in a process of its own that has entered, and returns what it returned, 0 to 200. Errc::unavailable
  // when it was not done within `patience_seconds`, or was killed.
  [[nodiscard]] Result<int> inside(unsigned patience_seconds,
                                   const std::function<int(const std::string& path)>& work) const;

 private:
  FrontHome(UniqueFd directory, std::string path, uid_t owner)
      : directory_(std::move(directory)), path_(std::move(path)), owner_(owner) {}
  UniqueFd directory_;
  std::string path_;
  uid_t owner_;
};

// Whether this state directory has ever had a key, as root knows it: what the front's database says is the front's
// word.
bool keys_required(const std::string& state_dir);
Result<> require_keys(const std::string& state_dir);

}  // namespace cove::server
