#include "keeper/user_ids.hpp"

namespace cove::keeper {

Result<std::uint32_t> UserIds::take() {
  if (count_ == 1) return first_;
  for (std::uint32_t tried = 0; tried < count_; ++tried) {
    const std::uint32_t uid = first_ + (next_++ % count_);
    if (used_.insert(uid).second) return uid;
  }
  return fail(Errc::unavailable, fmt::format("all {} user ids are in use by sandboxes", count_));
}

}  // namespace cove::keeper
