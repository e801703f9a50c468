#pragma once

#include <memory>
#include <vector>

#include "run/workplace.hpp"
#include "sandbox/kernel.hpp"

namespace cove::run {

// One execution in a kernel with a waiting caller. Destroying this before the end cancels it, unless it is detached.
class Cell {
 public:
  // Queued when this returns. Fails as Kernel::execute does.
  static Result<Cell> begin(Caller caller, Workplace workplace, std::shared_ptr<sandbox::Kernel> kernel,
                            sandbox::ExecuteRequest request);
  Cell(Cell&&) noexcept = default;
  Cell& operator=(Cell&&) = delete;
  ~Cell();

  // Waits for the end. False: the caller is gone.
  async::Task<bool> wait();
  [[nodiscard]] const std::shared_ptr<sandbox::Execution>& execution() const { return execution_; }
  // The same, even after the caller is gone.
  async::Task<> run_to_end();

 private:
  Cell(Caller caller, Workplace workplace, std::shared_ptr<sandbox::Kernel> kernel,
       std::shared_ptr<sandbox::Execution> execution);

  Caller caller_;
  Workplace workplace_;
  std::shared_ptr<sandbox::Kernel> kernel_;
  std::shared_ptr<sandbox::Execution> execution_;
};

}  // namespace cove::run
