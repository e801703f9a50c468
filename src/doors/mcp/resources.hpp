#pragma once

#include <boost/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "doors/mcp/tool.hpp"

namespace cove::doors::mcp {

// The resources of one URI scheme.
class Resources {
 public:
  virtual ~Resources() = default;

  // Whether a URI has this scheme; the resource need not exist.
  [[nodiscard]] virtual bool knows(std::string_view uri) const = 0;
  [[nodiscard]] virtual boost::json::array templates() const = 0;

  struct Page {
    boost::json::array resources;
    std::string next;  // where the next page begins; "" at the end
  };
  // `position` is "" or an earlier page's `next`; invalid_params for anything else.
  virtual Task<cove::mcp::Or<Page>> list(cove::mcp::Call& call, std::string position, std::size_t max_count) = 0;
  // The contents, one or more; no_resource() when there is none.
  virtual Task<cove::mcp::Or<boost::json::array>> read(cove::mcp::Call& call, std::string uri) = 0;
  // Reports changes to the notifier while there are subscribers. Returns the URI that notifications will name.
  virtual Task<cove::mcp::Or<std::string>> watch(cove::mcp::Call& call, std::string uri) = 0;
  // Values for a variable of a URI template.
  virtual Task<std::vector<std::string>> suggest(cove::mcp::Call& call, std::string variable,
                                                 boost::json::object others) = 0;
};

// The fault for a missing resource, with the code of the call's revision.
cove::mcp::Fault no_resource(const cove::mcp::Call& call, std::string_view uri);
// As text if it is text, else as base64.
boost::json::object content_of(std::string_view uri, std::string_view mime, std::string bytes);

}  // namespace cove::doors::mcp
