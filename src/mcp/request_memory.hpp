#pragma once

#include <boost/json.hpp>
#include <map>
#include <memory>
#include <string>

namespace cove::mcp {

// What a value takes in memory, roughly.
std::size_t bytes_of(const boost::json::value& value);

// Memory held by requests in progress, limited for each tenant: a client may send large requests and let them wait.
class RequestMemory {
 public:
  static constexpr std::size_t kMax = std::size_t{256} << 20;  // of one tenant

  // Held by the request. Null when it would exceed the limit.
  std::shared_ptr<void> take(const std::string& tenant, std::size_t bytes);

 private:
  std::shared_ptr<std::map<std::string, std::size_t>> held_ = std::make_shared<std::map<std::string, std::size_t>>();
};

}  // namespace cove::mcp
