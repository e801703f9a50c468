#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "async/task.hpp"
#include "base/result.hpp"
#include "mcp/client/authorization.hpp"
#include "mcp/client/client.hpp"
#include "mcp/client/http_exchange.hpp"
#include "mcp/client/transport.hpp"
#include "outbound/client.hpp"
#include "outbound/url.hpp"

namespace cove::mcp::client {

// What every request to one HTTP server has in common: its headers, its credentials, where it may go.
class HttpSide {
 public:
  HttpSide(std::shared_ptr<const Environment> environment, std::shared_ptr<const ServerConfig> config,
           outbound::Url url);

  [[nodiscard]] const outbound::Url& url() const { return url_; }
  [[nodiscard]] const Limits& limits() const { return environment_->limits; }
  [[nodiscard]] const boost::asio::any_io_executor& executor() const { return environment_->executor; }

  // With the configured headers.
  [[nodiscard]] outbound::Request request(std::string method, outbound::Url url,
                                          std::chrono::steady_clock::time_point until) const;
  // Sends it with credentials. A 401 or 403 is answered with better ones as often as that may help; a redirect is
  // followed to the same origin alone.
  async::Task<Result<HttpAnswer>> send(outbound::Request request, OnHead on_head, OnEvent on_event) const;

  // What an answer comes to that is neither a message nor a stream of them.
  [[nodiscard]] Reply refusal(const HttpAnswer& answer) const;

 private:
  std::shared_ptr<const Environment> environment_;
  std::shared_ptr<const ServerConfig> config_;
  outbound::Url url_;
  std::shared_ptr<Authorization> authorization_;
};

// The id of a request of ours that this message answers; 0: it answers none.
std::uint64_t answered_by(const boost::json::value& message);

}  // namespace cove::mcp::client
