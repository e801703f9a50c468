#pragma once

#include <boost/json.hpp>
#include <map>
#include <memory>
#include <string>

namespace cove::mcp {

// What a value takes in memory, roughly.
std::size_t weight_of(const boost::json::value& value);

// What requests that are served hold in memory, of each tenant: a client may send much and let it wait.
class Burden {
 public:
  static constexpr std::size_t kMost = std::size_t{256} << 20;  // of one tenant

  // Held as long as the request is. Null when it would be too much.
  std::shared_ptr<void> take(const std::string& tenant, std::size_t weight);

 private:
  std::shared_ptr<std::map<std::string, std::size_t>> held_ = std::make_shared<std::map<std::string, std::size_t>>();
};

}  // namespace cove::mcp
