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
  const auto peer = std::make_shared<KernelPeer>(kernel);
  // What a kernel said to the server process before us is heard once more, and may have been done. Who has its answer
  // takes no other.
  if (const auto since = broker_.restored_at(peer->sandbox()->row().id).count(); since > 0) {
    const auto* at = message.content.if_contains("at");
    if (at == nullptr || !at->is_int64() || at->get_int64() < since)
      return calls_.refuse(*peer, message.parent.value_or(0), call,
                           "the server restarted while this call was under way: it may have been made");
  }
  calls_.begin(kernel.get(), peer, call, std::move(message));
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
