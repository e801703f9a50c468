#include "run/cell.hpp"

namespace cove::run {

using async::Task;
using Clock = std::chrono::steady_clock;

Result<Cell> Cell::begin(Caller caller, Workplace workplace, std::shared_ptr<sandbox::Kernel> kernel,
                         sandbox::ExecuteRequest request) {
  request.actor = journal::actor_of(caller.principal);
  COVE_TRY(auto execution, kernel->execute(std::move(request)));
  return Cell(std::move(caller), std::move(workplace), std::move(kernel), std::move(execution));
}

Cell::Cell(Caller caller, Workplace workplace, std::shared_ptr<sandbox::Kernel> kernel,
           std::shared_ptr<sandbox::Execution> execution)
    : caller_(std::move(caller)),
      workplace_(std::move(workplace)),
      kernel_(std::move(kernel)),
      execution_(std::move(execution)) {}

Cell::~Cell() {
  if (execution_) kernel_->cancel(execution_, sandbox::Reason::cancelled);
}

Task<bool> Cell::wait() {
  while (!execution_->end()) {
    co_await execution_->changed().wait_until(Clock::now() + sandbox::kPollInterval);
    if (caller_.gone()) co_return false;
  }
  co_return true;
}

Task<> Cell::run_to_end() {
  while (!execution_->end()) co_await execution_->changed().wait();
}

}  // namespace cove::run
