#include "tools/connection.hpp"

#include <algorithm>

namespace cove::tools {
namespace {

using mcp::client::Client;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kPatience = 2;  // failures in a row that nobody waits for
constexpr std::chrono::seconds kLongest{60};

async::Task<> end_client(std::shared_ptr<Client> client) {
  co_await client->close();
}

}  // namespace

Connection::Connection(boost::asio::any_io_executor executor, async::TaskGroup& tasks, Find find)
    : tasks_(tasks), find_(std::move(find)), settled_(std::move(executor)) {}

Connection::~Connection() {
  close();
}

void Connection::close() {
  if (auto client = std::exchange(client_, nullptr)) tasks_.spawn("end an MCP server", end_client(std::move(client)));
}

void Connection::back_off(const Error& error) {
  last_ = error;
  if (++failures_ <= kPatience) return;
  const auto wait =
      std::min<Clock::duration>(kLongest, std::chrono::seconds(1) * (1U << std::min(failures_ - kPatience - 1, 6U)));
  again_at_ = Clock::now() + wait;
}

void Connection::report(const Result<mcp::client::CallResult>& result) {
  if (result) {
    failures_ = 0;
    return;
  }
  const auto& error = result.error();
  if (error.code == Errc::unavailable && error.sys_errno == 0) back_off(error);
}

async::Task<Result<std::shared_ptr<Client>>> Connection::get(std::shared_ptr<Connection> self) {
  while (self->connecting_) co_await self->settled_.wait();
  if (Clock::now() < self->again_at_) {
    auto error = *self->last_;
    error.retry_after = std::chrono::ceil<std::chrono::milliseconds>(self->again_at_ - Clock::now());
    error.message = fmt::format("the server failed {} times and is tried again in {} s: {}", self->failures_,
                                std::chrono::ceil<std::chrono::seconds>(error.retry_after).count(), error.message);
    co_return tl::unexpected<Error>(std::move(error));
  }
  if (self->client_) co_return self->client_;
  auto way = self->find_();
  if (!way) co_return tl::unexpected<Error>(way.error());
  self->connecting_ = true;
  const std::shared_ptr<void> over(nullptr, [self](void*) {
    self->connecting_ = false;
    self->settled_.notify_all();
  });
  way->environment.on_tools_changed = [weak = std::weak_ptr(self)] {
    if (const auto connection = weak.lock()) ++connection->version_;
  };
  auto made = co_await Client::connect(std::move(way->environment), std::move(way->config));
  if (!made) {
    self->back_off(made.error());
    co_return tl::unexpected<Error>(made.error());
  }
  self->client_ = std::move(*made);
  ++self->version_;
  co_return self->client_;
}

}  // namespace cove::tools
