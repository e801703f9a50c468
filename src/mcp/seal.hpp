#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace cove::mcp {

// Gives state to clients to keep, and knows it again: what comes back changed, from another server, or late is nothing.
// Whoever holds it can read it.
class Seal {
 public:
  // With a key of its own, for as long as it lives.
  Seal();

  [[nodiscard]] std::string close(const boost::json::object& state, std::chrono::milliseconds life) const;
  [[nodiscard]] std::optional<boost::json::object> open(std::string_view sealed) const;

 private:
  std::string key_;
};

}  // namespace cove::mcp
