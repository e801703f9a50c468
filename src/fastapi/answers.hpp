#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "async/task.hpp"
#include "fastapi/checker.hpp"
#include "http/exchange.hpp"
#include "http/response.hpp"

namespace cove::fastapi {

// A value, or what is answered because there is none.
template <typename T>
using Or = tl::expected<T, http::Response>;

http::Response json(unsigned status, std::string body);
// {"detail": text}
http::Response detail(unsigned status, std::string_view text);
tl::unexpected<http::Response> refuse(unsigned status, std::string_view text);
// 422 {"detail": …}
http::Response wrong(const Problems& problems);
// With Retry-After.
http::Response later(http::Response response, std::chrono::milliseconds after);
// What our own HTTP side refuses, as clients of these paths know it.
http::Response in_their_words(http::Response response);

async::Task<> send(http::Exchange& exchange, http::Response response);
// Reads the whole body, and parses it.
async::Task<Or<Value>> read_value(http::Exchange& exchange, std::size_t limit);

}  // namespace cove::fastapi
