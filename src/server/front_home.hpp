#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace cove::server {

// <state_dir>/front, the directory of the unprivileged front: its database, the control sockets of sandboxes, stored
// files. An attacker who controls the front controls its contents. So root creates the directory once, gives it to a
// uid that no other state directory uses, and from then on touches nothing below it: a process that needs to go inside
// becomes that uid first.
class FrontHome {
 public:
  // An existing directory, whoever owns it; nullopt when there is none.
  static Result<std::optional<FrontHome>> find(const std::string& state_dir);
  // Creates the directory if it is missing.
  static Result<FrontHome> make(const std::string& state_dir);
  // The same for the server: Errc::denied when the directory belongs to another user's server.
  static Result<FrontHome> own(const std::string& state_dir);

  [[nodiscard]] uid_t owner() const { return owner_; }
  // Of the egress process of the same server: as unique.
  [[nodiscard]] uid_t egress_owner() const;
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

// Whether this state directory has ever had a key. Recorded outside the front's directory, because its database cannot
// be trusted.
bool keys_required(const std::string& state_dir);
Result<> require_keys(const std::string& state_dir);

}  // namespace cove::server
