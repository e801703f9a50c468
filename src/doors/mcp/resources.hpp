#pragma once

#include <boost/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "doors/mcp/tool.hpp"

namespace cove::doors::mcp {

// What can be read under addresses of one kind.
class Resources {
 public:
  virtual ~Resources() = default;

  // Whether an address is of this kind; the resource need not exist.
  [[nodiscard]] virtual bool knows(std::string_view uri) const = 0;
  [[nodiscard]] virtual boost::json::array templates() const = 0;

  struct Page {
    boost::json::array resources;
    std::string next;  // where the next page begins; "" at the end
  };
  // `place` is "" or an earlier page's `next`; invalid_params for anything else.
  virtual Task<cove::mcp::Or<Page>> list(cove::mcp::Call& call, std::string place, std::size_t most) = 0;
  // The contents, one or more; no_resource() when there is none.
  virtual Task<cove::mcp::Or<boost::json::array>> read(cove::mcp::Call& call, std::string uri) = 0;
  // Reports changes to the notifier while there are subscribers. Returns the address that notifications will name.
  virtual Task<cove::mcp::Or<std::string>> watch(cove::mcp::Call& call, std::string uri) = 0;
  // What a variable of a template may be.
  virtual Task<std::vector<std::string>> suggest(cove::mcp::Call& call, std::string variable,
                                                 boost::json::object others) = 0;
};

// The fault for what is not there, as the call's revision has it.
cove::mcp::Fault no_resource(const cove::mcp::Call& call, std::string_view uri);
// Text where it is text, else base64.
boost::json::object content_of(std::string_view uri, std::string_view mime, std::string bytes);

}  // namespace cove::doors::mcp
