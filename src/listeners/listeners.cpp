#include "listeners/listeners.hpp"

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>

#include "base/clock.hpp"
#include "listeners/socket.hpp"

namespace cove::listeners {

namespace asio = boost::asio;

Listeners::Listeners(asio::any_io_executor executor, async::TaskGroup& tasks, std::function<http::Server&()> server)
    : executor_(std::move(executor)), tasks_(tasks), server_(std::move(server)) {}

Result<Listener> Listeners::open(const config::Endpoint& endpoint, std::shared_ptr<sandbox::Sandbox> sandbox) {
  const auto& tenant = sandbox->tenant();
  if (of(tenant).size() >= kMaxOfTenant)
    return fail(Errc::quota, fmt::format("there are {} listeners of this tenant: remove one first", kMaxOfTenant));
  if (open_.size() >= kMaxOfAll)
    return fail(Errc::unavailable, fmt::format("there are {} listeners, the most this server has", kMaxOfAll));
  COVE_TRY(auto socket, listen_on(endpoint, std::chrono::milliseconds(0)));
  const Listener listener{.endpoint = bound_to(socket.get(), endpoint),
                          .tenant = tenant,
                          .sandbox = sandbox->name(),
                          .opened_unix_ms = unix_millis()};
  auto binding = std::make_shared<const http::Binding>(http::Binding{.scope = sandbox->name(), .tenant = tenant});
  asio::ip::tcp::acceptor acceptor(executor_);
  acceptor.assign(endpoint.host.find(':') == std::string::npos ? asio::ip::tcp::v4() : asio::ip::tcp::v6(),
                  socket.release());
  tasks_.spawn("serve one sandbox", server_().serve(std::move(acceptor), binding));
  open_.push_back({.listener = listener, .binding = binding, .sandbox = sandbox});
  tasks_.spawn("end a listener with its sandbox", end_with(std::move(sandbox), std::move(binding)));
  return listener;
}

std::vector<Listener> Listeners::of(const std::string& tenant) const {
  std::vector<Listener> own;
  for (const auto& [listener, binding, sandbox] : open_) {
    if (listener.tenant == tenant) own.push_back(listener);
  }
  return own;
}

Result<> Listeners::close(const std::string& tenant, std::uint16_t port) {
  std::vector<std::shared_ptr<const http::Binding>> found;
  for (const auto& [listener, binding, sandbox] : open_) {
    if (listener.tenant == tenant && listener.endpoint.port == port) found.push_back(binding);
  }
  if (found.empty()) return fail(Errc::not_found, fmt::format("listener not found: {}", port));
  for (const auto& binding : found) end(binding);
  return {};
}

void Listeners::end(const std::shared_ptr<const http::Binding>& binding) {
  server_().end(binding);
  const auto found = std::ranges::find(open_, binding, &Open::binding);
  if (found == open_.end()) return;
  const auto sandbox = found->sandbox.lock();
  open_.erase(found);
  if (sandbox) sandbox->changed().notify_all();  // end_with() waits for nothing more
}

async::Task<> Listeners::end_with(std::shared_ptr<sandbox::Sandbox> sandbox,
                                  std::shared_ptr<const http::Binding> binding) {
  const auto over = [&] {
    return sandbox->state() == sandbox::State::deleting || sandbox->state() == sandbox::State::gone;
  };
  const auto is_open = [&] { return std::ranges::find(open_, binding, &Open::binding) != open_.end(); };
  while (!over() && is_open()) co_await sandbox->changed().wait();
  if (is_open()) end(binding);
}

}  // namespace cove::listeners
