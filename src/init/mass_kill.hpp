#pragma once

#include <cstdint>

namespace cove::init {

// SIGKILL to every process of the sandbox but init. A killed process runs on for a moment, on another core: nothing new
// is begun until all are gone.
class MassKill {
 public:
  static constexpr std::int64_t kPollMillis = 1;

  void start();
  // Whether something killed may still run. Gives up after two seconds: a process stuck in the kernel must not stop us.
  [[nodiscard]] bool pending();
  // The same as pending() found last.
  [[nodiscard]] bool was_pending() const { return give_up_at_ != 0; }

 private:
  std::int64_t give_up_at_ = 0;  // 0: everything killed is gone
};

}  // namespace cove::init
