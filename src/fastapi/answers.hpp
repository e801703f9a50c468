#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <variant>

#include "async/task.hpp"
#include "base/result.hpp"
#include "fastapi/checker.hpp"
#include "http/exchange.hpp"
#include "http/response.hpp"

namespace cove::fastapi {

// A value, or the error response.
template <typename T>
using Or = tl::expected<T, http::Response>;
// The result of a handler. nullopt: the client is gone, or the handler has written the answer itself.
using Answer = Or<std::optional<http::Response>>;

http::Response json(unsigned status, std::string body);
// {"detail": text}
http::Response detail(unsigned status, std::string_view text);
tl::unexpected<http::Response> refuse(unsigned status, std::string_view text);
// 422 {"detail": …}
http::Response wrong(const Problems& problems);
// The parsed value, or 422.
template <typename T>
Or<T> valid(std::variant<T, Problems> parsed) {
  if (const auto* problems = std::get_if<Problems>(&parsed)) return tl::unexpected<http::Response>(wrong(*problems));
  return std::get<T>(std::move(parsed));
}
// With Retry-After.
http::Response later(http::Response response, std::chrono::milliseconds after);
// A refusal of the HTTP layer, in the format of these APIs.
http::Response in_their_words(http::Response response);

async::Task<> send(http::Exchange& exchange, http::Response response);

// Adapts a handler to a route. A shutdown waits until the answer is sent.
template <auto handler, class Services>
async::Task<> answered(Services& services, http::Exchange& exchange) {
  Answer answer = co_await handler(services, exchange);
  const auto pass = services.gate.enter();
  if (!answer) co_return co_await send(exchange, std::move(answer.error()));
  if (*answer) co_await send(exchange, std::move(**answer));
}

// Reads the whole body, and parses it.
async::Task<Or<Value>> read_value(http::Exchange& exchange, std::size_t limit);

}  // namespace cove::fastapi

// COVE_OR_TRY(auto body, co_await read_value(exchange, limit)): COVE_CO_TRY for Or<T>.
#define COVE_OR_TRY(decl, expr) COVE_OR_TRY_(COVE_CONCAT(cove_try_, __LINE__), decl, expr)
#define COVE_OR_TRY_(tmp, decl, expr)                                                 \
  auto tmp = (expr);                                                                  \
  if (!tmp) co_return tl::unexpected<::cove::http::Response>(std::move(tmp.error())); \
  decl = std::move(*tmp)
