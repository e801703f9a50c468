#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cove::egress {

// The beginning of what a TLS client sends (RFC 8446, 4.1.2), read as far as the name of the server it means.
struct ClientHello {
  enum class State : std::uint8_t { more, not_tls, malformed, complete };
  State state = State::more;
  std::optional<std::string> server_name;  // as sent; none: the client did not say
};
inline constexpr std::size_t kLongestClientHello = 64 << 10;

// `bytes` is everything the client has sent so far. Malformed too: longer than the bound, two names, a name with a NUL.
ClientHello read_client_hello(std::string_view bytes);

}  // namespace cove::egress
