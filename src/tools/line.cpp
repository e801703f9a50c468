#include "tools/line.hpp"

#include "sandbox/poll_interval.hpp"
#include "sandbox/reader.hpp"

namespace cove::tools {
namespace {

constexpr std::size_t kPieceOfLine = 256U << 10;

class LinePeer : public Peer {
 public:
  LinePeer(std::shared_ptr<sandbox::Sandbox> sandbox, std::shared_ptr<sandbox::Process> process)
      : sandbox_(std::move(sandbox)), process_(std::move(process)) {}
  [[nodiscard]] const std::shared_ptr<sandbox::Sandbox>& sandbox() const override { return sandbox_; }
  Result<> tell(std::string_view message) override { return process_->send(message); }
  [[nodiscard]] std::size_t untaken_bytes() const override { return process_->untaken_bytes(); }
  [[nodiscard]] bool gone() const override { return process_->end().has_value(); }

 private:
  std::shared_ptr<sandbox::Sandbox> sandbox_;
  std::shared_ptr<sandbox::Process> process_;
};

}  // namespace

void Lines::open(const std::shared_ptr<sandbox::Sandbox>& sandbox) {
  auto& mark = open_[sandbox->row().id];
  if (mark) return;
  mark = std::make_shared<bool>(true);
  tasks_.spawn("serve a sandbox's calls of tools", serve(sandbox, mark));
}

async::Task<> Lines::serve(std::shared_ptr<sandbox::Sandbox> sandbox, std::shared_ptr<bool> mark) {
  const std::shared_ptr<void> over(nullptr, [this, id = sandbox->row().id, mark](void*) {
    const auto found = open_.find(id);
    if (found != open_.end() && found->second == mark) open_.erase(found);
  });
  sandbox::ProcessRequest request{.kind = sandbox::ProcessKind::internal,
                                  .argv = {"/usr/bin/python3", "-I", "-B", "-S", "/cove/python/tools_line.py"},
                                  .delivery = sandbox::Delivery::everything,
                                  .channel = true};
  auto started = co_await sandbox->start(std::move(request));
  if (!started) co_return;
  const auto process = *started;
  const auto peer = std::make_shared<LinePeer>(sandbox, process);
  sandbox::KernelInbox inbox;
  sandbox::Reader reader(process, 1);
  while (true) {
    const auto batch = reader.take(kPieceOfLine);
    for (const auto& event : batch.events) {
      if (event.kind != sandbox::Event::Kind::channel) continue;
      auto message = inbox.add(event.bytes);
      if (!message) {  // it can only be somebody else's by now
        process->stop(sandbox::Reason::cancelled);
        continue;
      }
      if (!*message || !(*message)->parent) continue;
      const auto connection = static_cast<std::int64_t>(*(*message)->parent);
      if ((*message)->type == "tool_call")
        calls_.begin(process.get(), peer, connection, std::move(**message));
      else if ((*message)->type == "tool_cancel")
        calls_.cancel(process.get(), connection);
    }
    if (batch.over) break;
    if (batch.events.empty())
      co_await process->changed().wait_until(std::chrono::steady_clock::now() + sandbox::kPollInterval);
  }
  calls_.cancel_all(process.get());
  sandbox->forget(process);
}

}  // namespace cove::tools
