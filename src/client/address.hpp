#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace cove::client {

// The address of a server. Only plain http: use a tunnel or a proxy for servers on other machines.
struct Address {
  std::string host;    // without the brackets of IPv6
  std::string port;    // "80" when the URL names none
  std::string prefix;  // "" or "/some/path", never with a slash at its end

  [[nodiscard]] std::string authority() const;  // for the Host header: the port is left out when it is 80
  [[nodiscard]] std::string url() const;
};

// "http://host[:port][/prefix]". Errc::invalid with a sentence that says what to write instead.
Result<Address> parse_address(std::string_view url);

// One path segment or query value: everything but letters, digits and -._~ is percent-encoded.
std::string encoded(std::string_view text);

// "/v1/sandboxes/{id}" and what is below it, as target("demo", "/files").with("path", "a b").
class Target {
 public:
  explicit Target(std::string path) : text_(std::move(path)) {}
  Target& with(std::string_view name, std::string_view value);
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
  char separator_ = '?';
};
Target sandbox_target(std::string_view id, std::string_view below = "");

}  // namespace cove::client
