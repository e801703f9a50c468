#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/random.hpp"
#include "base/result.hpp"
#include "sys/cgroup.hpp"

namespace cove::keeper {

// Control groups for new sandboxes. One is made in advance, while the keeper has nothing else to do; a group is never
// used twice.
class CgroupPool {
 public:
  explicit CgroupPool(const sys::CgroupTree& tree) : tree_(tree) {}

  [[nodiscard]] bool enabled() const { return tree_.mode() != sys::CgroupMode::none; }
  Result<sys::Cgroup> take();
  [[nodiscard]] bool wants_spare() const { return wants_spare_; }
  void make_spare();
  // The name of the spare group; empty when there is none.
  [[nodiscard]] std::string spare_name() const { return spare_ ? spare_->name() : ""; }
  // No more sandboxes will be made.
  void close();

 private:
  Result<sys::Cgroup> make();

  const sys::CgroupTree& tree_;
  std::optional<sys::Cgroup> spare_;
  bool wants_spare_ = false;
  std::uint32_t next_ = random_number<std::uint32_t>();  // never a name of the keeper before
};

}  // namespace cove::keeper
