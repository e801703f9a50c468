#include "keeper/cgroup_pool.hpp"

#include <utility>

namespace cove::keeper {

Result<sys::Cgroup> CgroupPool::make() {
  return sys::Cgroup::create(tree_, fmt::format("s-{}", next_++));
}

Result<sys::Cgroup> CgroupPool::take() {
  wants_spare_ = true;
  if (!spare_) return make();
  auto taken = std::move(*spare_);
  spare_.reset();
  return taken;
}

void CgroupPool::make_spare() {
  wants_spare_ = false;  // also when it fails: the next take() tries again, and reports why not
  if (auto made = make()) spare_.emplace(std::move(*made));
}

void CgroupPool::close() {
  wants_spare_ = false;
  spare_.reset();
}

}  // namespace cove::keeper
