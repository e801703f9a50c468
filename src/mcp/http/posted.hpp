#pragma once

#include <boost/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace cove::mcp_http {

// A message or a batch as it was posted, read as far as the transport must know it.
struct Posted {
  enum class Kind { request, notification, response };
  boost::json::value value;
  Kind kind = Kind::notification;  // of a batch: request when something in it wants an answer
  boost::json::value id = nullptr;
  std::string method;
  boost::json::object params;

  [[nodiscard]] bool asks() const { return kind == Kind::request; }
};

// Nothing when it is no JSON.
std::optional<Posted> read_posted(std::string_view body);

}  // namespace cove::mcp_http
