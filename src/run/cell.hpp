#pragma once

#include <memory>
#include <vector>

#include "run/workplace.hpp"
#include "sandbox/kernel.hpp"

namespace cove::run {

// One execution in a kernel that somebody waits for: cancelled when this goes before its end, unless it is detached.
class Cell {
 public:
  // Queued when this returns. Fails as Kernel::execute does.
  static Result<Cell> begin(Caller caller, Workplace workplace, std::shared_ptr<sandbox::Kernel> kernel,
                            sandbox::ExecuteRequest request);
  Cell(Cell&&) noexcept = default;
  Cell& operator=(Cell&&) = delete;
  ~Cell();

  // Until the end. False: the caller has gone.
  async::Task<bool> wait();
  [[nodiscard]] const std::shared_ptr<sandbox::Execution>& execution() const { return execution_; }
  // The same whether or not there is still a caller.
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
