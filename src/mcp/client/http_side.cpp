#include "mcp/client/http_side.hpp"

namespace cove::mcp::client {
namespace {

namespace json = boost::json;
using async::Task;

constexpr int kMaxTries = 5;  // of one request, with other credentials or elsewhere
constexpr std::size_t kSaid = 300;

bool leads_on(unsigned status) {
  return status == 307 || status == 308;
}

bool has_header(const outbound::Headers& headers, std::string_view name) {
  const outbound::Head head{.status = 0, .headers = headers, .url = {}};
  return !head.header(name).empty();
}

}  // namespace

HttpSide::HttpSide(std::shared_ptr<const Environment> environment, std::shared_ptr<const ServerConfig> config,
                   outbound::Url url)
    : environment_(std::move(environment)), config_(std::move(config)), url_(std::move(url)) {
  // Whoever wrote down a credential wants that one.
  if (!has_header(config_->headers, "Authorization"))
    authorization_ = std::make_shared<Authorization>(environment_, config_, url_);
}

outbound::Request HttpSide::request(std::string method, outbound::Url url,
                                    std::chrono::steady_clock::time_point until) const {
  outbound::Request request{.method = std::move(method), .url = std::move(url), .until = until};
  request.headers = config_->headers;
  request.reach = environment_->reach;
  request.tenant = environment_->tenant;
  return request;
}

Task<Result<HttpAnswer>> HttpSide::send(outbound::Request request, OnHead on_head, OnEvent on_event) const {
  if (environment_->http == nullptr) co_return fail(Errc::unsupported, "no server can be reached over HTTP from here");
  const auto authorization = authorization_;
  const auto environment = environment_;
  for (int tries = 1;; ++tries) {
    auto attempt = request;
    const auto used = authorization ? authorization->header() : std::string();
    if (!used.empty()) attempt.headers.emplace_back("Authorization", used);
    auto answer =
        co_await exchange(*environment->http, std::move(attempt), environment->limits.message_bytes, on_head, on_event);
    if (!answer || tries >= kMaxTries) co_return answer;
    const auto status = answer->head.status;
    if (leads_on(status)) {
      const std::string location(answer->head.header("Location"));
      auto next = outbound::resolve_url(request.url, location);
      if (!next || !next->same_origin(request.url)) co_return answer;
      request.url = std::move(*next);
    } else if ((status == 401 || status == 403) && authorization) {
      std::string challenge;
      for (const auto& [name, value] : answer->head.headers) {
        const outbound::Head one{.status = 0, .headers = {{name, value}}, .url = {}};
        if (!one.header("WWW-Authenticate").empty()) challenge += (challenge.empty() ? "" : ", ") + value;
      }
      const auto better = co_await authorization->challenged(status, std::move(challenge), used, request.until);
      if (!better) co_return tl::unexpected<Error>(better.error());
      if (!*better) co_return answer;
    } else {
      co_return answer;
    }
  }
}

Reply HttpSide::refusal(const HttpAnswer& answer) const {
  Reply reply{.bytes = answer.body.size(), .status = answer.head.status, .said = shown(answer.body, kSaid)};
  reply.unauthorized = reply.status == 401 || reply.status == 403;
  if (answer.type() != "application/json") return reply;
  auto value = parse_text(answer.body, limits().json_depth);
  if (!value || !value->is_object()) return reply;
  const auto* error = value->as_object().if_contains("error");
  if (error == nullptr || !error->is_object()) return reply;
  // It may have no id, where the server did not come so far as to read it.
  const auto* version = value->as_object().if_contains("jsonrpc");
  const auto* code = error->as_object().if_contains("code");
  if (version == nullptr || code == nullptr || !code->is_int64()) return reply;
  Fault fault{.code = static_cast<Code>(code->as_int64()), .message = {}, .data = nullptr};
  if (const auto* message = error->as_object().if_contains("message"); message != nullptr && message->is_string())
    fault.message = shown(message->as_string(), 1000);
  if (const auto* data = error->as_object().if_contains("data")) fault.data = *data;
  reply.fault = std::move(fault);
  return reply;
}

std::uint64_t answered_by(const json::value& message) {
  if (!message.is_object() || message.as_object().contains("method")) return 0;
  const auto* id = message.as_object().if_contains("id");
  if (id == nullptr || !id->is_int64() || id->as_int64() <= 0) return 0;
  return static_cast<std::uint64_t>(id->as_int64());
}

}  // namespace cove::mcp::client
