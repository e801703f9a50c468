#include "tools/kernel_calls.hpp"

namespace cove::tools {
namespace {

class KernelPeer : public Peer {
 public:
  explicit KernelPeer(std::shared_ptr<sandbox::Kernel> kernel) : kernel_(std::move(kernel)) {}
  [[nodiscard]] const std::shared_ptr<sandbox::Sandbox>& sandbox() const override { return kernel_->sandbox(); }
  [[nodiscard]] std::string kernel() const override { return kernel_->id(); }
  Result<> tell(std::string_view message) override { return kernel_->tell(message); }
  [[nodiscard]] std::size_t untaken_bytes() const override { return kernel_->untaken_bytes(); }
  [[nodiscard]] bool gone() const override { return kernel_->state() == sandbox::Kernel::State::dead; }
  void hold_clock(std::uint64_t execution) override { kernel_->hold_clock(execution); }
  void release_clock(std::uint64_t execution) override { kernel_->release_clock(execution); }

 private:
  std::shared_ptr<sandbox::Kernel> kernel_;
};

}  // namespace

void KernelCalls::on_message(const std::shared_ptr<sandbox::Kernel>& kernel, sandbox::KernelMessage message) {
  const auto* number = message.content.if_contains("call");
  if (number == nullptr || !number->is_int64()) return;
  const auto call = number->get_int64();
  if (message.type != "tool_call") return calls_.cancel(kernel.get(), call);
  calls_.begin(kernel.get(), std::make_shared<KernelPeer>(kernel), call, std::move(message));
}

void KernelCalls::cancel(const sandbox::Kernel& kernel, std::optional<std::uint64_t> execution) {
  if (execution)
    calls_.cancel_parent(&kernel, *execution);
  else
    calls_.cancel_all(&kernel);
}

void KernelCalls::forget(const std::string& sandbox_id) {
  lines_.forget(sandbox_id);
  broker_.forget(sandbox_id);
}

}  // namespace cove::tools
