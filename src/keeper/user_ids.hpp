#pragma once

#include <cstdint>
#include <set>

#include "base/random.hpp"
#include "base/result.hpp"

namespace cove::keeper {

// The user ids of sandboxes, in the keeper's user namespace. They are given out in rotation, so that one is not used
// again soon, and never while a sandbox still has it.
class UserIds {
 public:
  // With a `count` of 1 every sandbox has the same.
  UserIds(std::uint32_t first, std::uint32_t count) : first_(first), count_(count) {}

  // Errc::unavailable when all are in use.
  Result<std::uint32_t> take();
  // For a sandbox that has its id already.
  void reserve(std::uint32_t uid) { used_.insert(uid); }
  void release(std::uint32_t uid) { used_.erase(uid); }

 private:
  std::uint32_t first_;
  std::uint32_t count_;
  std::uint32_t next_ = random_number<std::uint32_t>();
  std::set<std::uint32_t> used_;
};

}  // namespace cove::keeper
