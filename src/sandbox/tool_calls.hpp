#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "sandbox/kernel_message.hpp"

namespace cove::sandbox {

class Kernel;
class Sandbox;

// Who makes the calls of tools that kernels ask for (the room `tools`).
class ToolCalls {
 public:
  virtual ~ToolCalls() = default;
  // `tool_call` or `tool_cancel`, well-formed; what it says is written by code nobody has read. The answer goes to
  // Kernel::tell().
  virtual void on_message(const std::shared_ptr<Kernel>& kernel, KernelMessage message) = 0;
  // Nobody waits for the calls of this execution any more, or, without one, for any of the kernel's.
  virtual void cancel(const Kernel& kernel, std::optional<std::uint64_t> execution) = 0;
  // A sandbox of an earlier server process, before its kernels are heard.
  virtual void adopt(const std::shared_ptr<Sandbox>& sandbox) = 0;
  // A sandbox that is gone.
  virtual void forget(const std::string& sandbox_id) = 0;
};

}  // namespace cove::sandbox
