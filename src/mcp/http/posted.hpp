#pragma once

#include <boost/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace cove::mcp_http {

// A posted message or batch, parsed as far as the transport needs.
struct Posted {
  enum class Kind { request, notification, response };
  boost::json::value value;
  Kind kind = Kind::notification;  // of a batch: request if any element needs an answer
  boost::json::value id = nullptr;
  std::string method;
  boost::json::object params;

  [[nodiscard]] bool asks() const { return kind == Kind::request; }
};

// nullopt if it is not JSON.
std::optional<Posted> read_posted(std::string_view body);

}  // namespace cove::mcp_http
