#include "init/mass_kill.hpp"

#include <signal.h>

#include <cerrno>

#include "init/process.hpp"

namespace cove::init {
namespace {

constexpr std::int64_t kTimeoutMillis = 2'000;

}  // namespace

void MassKill::start() {
  ::kill(-1, SIGKILL);
  give_up_at_ = now_millis() + kTimeoutMillis;
}

bool MassKill::pending() {
  if (give_up_at_ == 0) return false;
  const bool gone = ::kill(-1, 0) != 0 && errno == ESRCH;
  if (gone || now_millis() >= give_up_at_) give_up_at_ = 0;
  return give_up_at_ != 0;
}

}  // namespace cove::init
