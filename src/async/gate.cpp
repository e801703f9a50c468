#include "async/gate.hpp"

namespace cove::async {

Gate::Pass::~Pass() {
  if (state_ && --state_->inside == 0) state_->changed.notify_all();
}

void Gate::interrupt() {
  ++state_->interrupts;
  state_->changed.notify_all();
}

Task<bool> Gate::wait_empty(std::chrono::steady_clock::time_point until) {
  const auto state = state_;
  const auto interrupts = state->interrupts;
  while (state->inside > 0 && state->interrupts == interrupts) {
    if (!co_await state->changed.wait_until(until)) break;
  }
  co_return state->inside == 0;
}

}  // namespace cove::async
