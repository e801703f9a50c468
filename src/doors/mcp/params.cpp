#include "doors/mcp/params.hpp"

#include <fmt/format.h>

#include "json/fields.hpp"

namespace cove::doors::mcp {

namespace json = boost::json;
using cove::mcp::Code;
using cove::mcp::fault;
using cove::mcp::Fault;
using cove::mcp::Or;

namespace {

tl::unexpected<Fault> wrong_params(std::string_view why) {
  return fault(Code::invalid_params, fmt::format("Invalid params: {}", why));
}

}  // namespace

Or<std::string> needed(const json::object& params, std::string_view name) {
  const auto text = cove::json::text_field(params, name);
  if (!text || !*text) return wrong_params(fmt::format("{} must be a string", name));
  return **text;
}

Or<json::object> object_in(const json::object& params, std::string_view name) {
  const auto object = cove::json::object_field(params, name);
  if (!object) return wrong_params(object.error().message);
  return *object == nullptr ? json::object() : **object;
}

}  // namespace cove::doors::mcp
