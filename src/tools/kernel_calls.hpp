#pragma once

#include <memory>
#include <optional>
#include <string>

#include "sandbox/kernel.hpp"
#include "sandbox/tool_calls.hpp"
#include "tools/line.hpp"
#include "tools/peer_calls.hpp"

namespace cove::tools {

// Calls that kernels make over their channels.
class KernelCalls : public sandbox::ToolCalls {
 public:
  // Registers itself with the registry, for as long as it lives.
  KernelCalls(sandbox::Registry& registry, Broker& broker, PeerCalls& calls, Lines& lines)
      : registry_(registry), broker_(broker), calls_(calls), lines_(lines) {
    registry_.set_tool_calls(this);
    broker_.on_server([this](const auto& sandbox) { lines_.open(sandbox); });
  }
  ~KernelCalls() override { registry_.set_tool_calls(nullptr); }
  KernelCalls(const KernelCalls&) = delete;
  KernelCalls& operator=(const KernelCalls&) = delete;

  void on_message(const std::shared_ptr<sandbox::Kernel>& kernel, sandbox::KernelMessage message) override;
  void cancel(const sandbox::Kernel& kernel, std::optional<std::uint64_t> execution) override;
  void adopt(const std::shared_ptr<sandbox::Sandbox>& sandbox) override { broker_.restore(sandbox); }
  void forget(const std::string& sandbox_id) override;

 private:
  sandbox::Registry& registry_;
  Broker& broker_;
  PeerCalls& calls_;
  Lines& lines_;
};

}  // namespace cove::tools
