#include "fastapi/answers.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace cove::fastapi {

http::Response json(unsigned status, std::string body) {
  return {.status = status, .body = std::move(body)};
}

http::Response detail(unsigned status, std::string_view text) {
  return json(status, fmt::format(R"({{"detail":{}}})", json_text(text)));
}

tl::unexpected<http::Response> refuse(unsigned status, std::string_view text) {
  return tl::unexpected<http::Response>(detail(status, text));
}

http::Response wrong(const Problems& problems) {
  return json(422, fmt::format(R"({{"detail":{}}})", problems.list));
}

http::Response later(http::Response response, std::chrono::milliseconds after) {
  const auto seconds = std::max<std::int64_t>(0, (after.count() + 999) / 1000);
  response.headers.emplace_back("Retry-After", std::to_string(seconds));
  return response;
}

http::Response in_their_words(http::Response response) {
  auto out = detail(response.status, response.status == 404   ? "Not Found"
                                     : response.status == 405 ? "Method Not Allowed"
                                     : response.status == 500 ? "Internal Server Error"
                                                              : response.body);
  out.headers = std::move(response.headers);
  return out;
}

async::Task<> send(http::Exchange& exchange, http::Response response) {
  [[maybe_unused]] const auto sent = co_await exchange.send(std::move(response));
}

async::Task<Or<Value>> read_value(http::Exchange& exchange, std::size_t limit) {
  const auto body = co_await exchange.read_body(limit);
  if (!body) {
    const auto status = body.error().code == Errc::over_limit ? 413U : 400U;
    co_return refuse(status, body.error().message);
  }
  auto read = read_body(*body, exchange.request().header("Content-Type"));
  if (auto* value = std::get_if<Value>(&read)) co_return std::move(*value);
  if (const auto* problems = std::get_if<Problems>(&read)) co_return tl::unexpected<http::Response>(wrong(*problems));
  co_return refuse(400, "There was an error parsing the body");
}

}  // namespace cove::fastapi
