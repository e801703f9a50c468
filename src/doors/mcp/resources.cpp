#include "doors/mcp/resources.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "doors/mcp/escaped.hpp"

namespace cove::doors::mcp {

namespace json = boost::json;
using cove::mcp::Code;

constexpr std::size_t kMaxText = std::size_t{7} << 20;

cove::mcp::Fault no_resource(const cove::mcp::Call& call, std::string_view uri) {
  return {.code = modern(call.revision) ? Code::invalid_params : Code::resource_not_found,
          .message = fmt::format("Resource not found: {}", uri),
          .data = {{"uri", uri}}};
}

json::object content_of(std::string_view uri, std::string_view mime, std::string bytes) {
  json::object content{{"uri", uri}, {"mimeType", mime}};
  // Text full of what JSON must escape would be longer than clients can read.
  const bool text = valid_utf8(bytes) && bytes.find('\0') == std::string::npos && escaped_size(bytes) < kMaxText;
  if (text)
    content["text"] = std::move(bytes);
  else
    content["blob"] = base64(bytes);
  return content;
}

}  // namespace cove::doors::mcp
