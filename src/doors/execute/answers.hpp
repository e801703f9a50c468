#pragma once

#include <chrono>
#include <string_view>
#include <tl/expected.hpp>

#include "doors/execute/door.hpp"
#include "doors/execute/requests.hpp"
#include "http/response.hpp"

namespace cove::doors::execute {

// A value, or what is answered because there is none.
template <typename T>
using Or = tl::expected<T, http::Response>;

// {"detail": text}
http::Response detail(unsigned status, std::string_view text);
tl::unexpected<http::Response> refuse(unsigned status, std::string_view text);
// 422 {"detail": …}
http::Response wrong(const Problems& problems);
http::Response later(http::Response response, std::chrono::milliseconds after);
// Errors of the core: 404, 409, 413, 503, 507 or 500.
http::Response answer_to(const Error& error, const config::Config& config);
// What our own HTTP side refuses, as clients of these paths know it.
http::Response in_their_words(http::Response response);

Task<> send(http::Exchange& exchange, http::Response response);
http::Response json(unsigned status, std::string body);

// Reads the whole body, and parses it.
Task<Or<Value>> read_value(const Services& services, http::Exchange& exchange);
// What a request may rely on before it asks for anything.
Or<std::chrono::milliseconds> checked_timeout(std::chrono::milliseconds asked, const config::Config& config);

// A slot, and the right to use it, until it is over.
struct Place {
  sandbox::Admission::Ticket slot;
  sandbox::Admission::Ticket share;
  Meter::Running running;
};
// Waits for one as long as the configuration says.
Task<Or<Place>> take_place(Services& services, http::Exchange& exchange, Operation operation);

// For routes that know neither HEAD nor empty names nor a slash at the end.
http::RouteOptions strict_route(http::Access access = http::Access::key);

}  // namespace cove::doors::execute
