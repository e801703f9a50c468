#include "egress/client_hello.hpp"

namespace cove::egress {
namespace {

constexpr unsigned char kHandshake = 22;
constexpr unsigned char kClientHello = 1;
constexpr std::size_t kLongestRecord = (16 << 10) + 256;
constexpr std::uint16_t kServerName = 0;

// Takes numbers and vectors off the front of a text; past its end `good` is false.
struct Reader {
  std::string_view rest;
  bool good = true;

  std::string_view take(std::size_t size) {
    if (!good || rest.size() < size) {
      good = false;
      return {};
    }
    const auto part = rest.substr(0, size);
    rest.remove_prefix(size);
    return part;
  }
  std::size_t number(std::size_t width) {
    std::size_t value = 0;
    for (const char c : take(width)) value = value << 8 | static_cast<unsigned char>(c);
    return good ? value : 0;
  }
  Reader vector(std::size_t width) {
    const auto size = number(width);
    const auto part = take(size);
    return Reader{part, good};
  }
};

ClientHello ended(ClientHello::State state) {
  return ClientHello{.state = state};
}

// The body of the message, without its header.
ClientHello read_body(std::string_view body) {
  constexpr auto kBad = ClientHello::State::malformed;
  ClientHello hello{.state = ClientHello::State::complete};
  Reader reader{body};
  (void)reader.take(2 + 32);  // version, random
  (void)reader.vector(1);     // session
  (void)reader.vector(2);     // ciphers
  (void)reader.vector(1);     // compression
  if (!reader.good) return ended(kBad);
  if (reader.rest.empty()) return hello;
  auto extensions = reader.vector(2);
  if (!reader.good || !reader.rest.empty()) return ended(kBad);
  while (!extensions.rest.empty()) {
    const auto type = extensions.number(2);
    auto data = extensions.vector(2);
    if (!extensions.good) return ended(kBad);
    if (type != kServerName) continue;
    auto names = data.vector(2);
    const auto kind = names.number(1);
    const auto name = names.vector(2);
    // One name of the one kind there is (RFC 6066).
    if (!data.rest.empty() || !names.good || !names.rest.empty() || kind != 0 || name.rest.empty() ||
        hello.server_name || name.rest.find('\0') != std::string_view::npos)
      return ended(kBad);
    hello.server_name = std::string(name.rest);
  }
  return hello;
}

}  // namespace

ClientHello read_client_hello(std::string_view bytes) {
  using State = ClientHello::State;
  std::string message;
  while (true) {
    if (bytes.empty()) return ended(State::more);
    // Only the first record decides whether it is TLS; later ones must go on with the message.
    if (static_cast<unsigned char>(bytes[0]) != kHandshake)
      return ended(message.empty() ? State::not_tls : State::malformed);
    if (bytes.size() < 2) return ended(State::more);
    if (bytes[1] != 3) return ended(message.empty() ? State::not_tls : State::malformed);
    if (bytes.size() < 5) return ended(State::more);
    Reader header{bytes.substr(3, 2)};
    const auto size = header.number(2);
    if (size == 0 || size > kLongestRecord) return ended(State::malformed);
    message += bytes.substr(5, size);
    if (!message.empty() && static_cast<unsigned char>(message[0]) != kClientHello) return ended(State::malformed);
    if (message.size() >= 4) {
      Reader head{std::string_view(message).substr(1, 3)};
      const auto length = head.number(3);
      if (length > kLongestClientHello) return ended(State::malformed);
      if (message.size() >= 4 + length) return read_body(std::string_view(message).substr(4, length));
    }
    if (bytes.size() < 5 + size) return ended(State::more);
    bytes.remove_prefix(5 + size);
  }
}

}  // namespace cove::egress
