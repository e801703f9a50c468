#include "mcp/http/headers.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text.hpp"
#include "http/encoding.hpp"
#include "mcp/envelope.hpp"
#include "mcp/mirrored.hpp"

namespace cove::mcp_http {
namespace {

namespace json = boost::json;
using cove::mcp::Code;
using cove::mcp::Fault;

// Without parameters and blanks.
std::string media_type(std::string_view text) {
  return http::to_lower(http::trim(text.substr(0, text.find(';'))));
}

std::string_view member_for_name(std::string_view method) {
  if (method == "tools/call" || method == "prompts/get") return "name";
  if (method == "resources/read") return "uri";
  if (method == "tasks/get" || method == "tasks/update" || method == "tasks/cancel") return "taskId";
  return "";
}

Fault wrong(std::string sentence) {
  return {.code = Code::header_mismatch, .message = std::move(sentence)};
}

// Arguments that the tool wants repeated in headers. Other headers are ignored.
std::optional<Fault> argument_mismatch(const http::Request& request, const json::object& arguments,
                                       const json::object& schema) {
  for (const auto& mirrored : cove::mcp::mirrored_arguments(schema)) {
    const auto* argument = cove::mcp::find_argument(arguments, mirrored.path);
    const auto values = request.header_all(mirrored.header);
    if (argument == nullptr && values.empty()) continue;
    const auto value = values.size() == 1 ? decoded(values.front()) : std::nullopt;
    if (argument == nullptr || !value || !cove::mcp::says_the_same(*argument, *value))
      return wrong(fmt::format("The header {} must equal the argument {} of the request", mirrored.header,
                               fmt::join(mirrored.path, ".")));
  }
  return std::nullopt;
}

}  // namespace

Accepts accepts(const http::Request& request) {
  Accepts found;
  bool said = false;
  for (const auto header : request.header_all("Accept")) {
    for (std::size_t at = 0; at <= header.size();) {
      const auto comma = std::min(header.find(',', at), header.size());
      const auto type = media_type(header.substr(at, comma - at));
      at = comma + 1;
      if (type.empty()) continue;
      said = true;
      found.json = found.json || type == "*/*" || type == "application/*" || type == "application/json";
      found.events = found.events || type == "*/*" || type == "text/*" || type == "text/event-stream";
    }
  }
  return said ? found : Accepts{.json = true, .events = true};
}

bool is_json(const http::Request& request) {
  return media_type(request.header("Content-Type")) == "application/json";
}

std::optional<std::string> decoded(std::string_view value) {
  constexpr std::string_view kBefore = "=?base64?";
  constexpr std::string_view kAfter = "?=";
  if (!value.starts_with(kBefore) || !value.ends_with(kAfter) || value.size() < kBefore.size() + kAfter.size())
    return std::string(value);
  value = value.substr(kBefore.size(), value.size() - kBefore.size() - kAfter.size());
  auto out = from_base64(value);
  if (!out || value.size() % 4 != 0 || !valid_utf8(*out)) return std::nullopt;
  return out;
}

std::optional<Fault> version_mismatch(const http::Request& request, const json::object& params) {
  const auto& version = cove::mcp::meta_of(params)->at(cove::mcp::envelope_key("protocolVersion"));
  if (request.header("MCP-Protocol-Version") == std::string_view(version.as_string())) return std::nullopt;
  return wrong("The header MCP-Protocol-Version must equal the protocolVersion in _meta");
}

std::optional<Fault> mismatch(const http::Request& request, std::string_view method, const json::object& params,
                              const cove::mcp::Service& service) {
  if (request.header("Mcp-Method") != method)
    return wrong("The header Mcp-Method must equal the method of the request");
  const auto member = member_for_name(method);
  if (member.empty()) return std::nullopt;
  const auto* said = params.if_contains(member);
  const auto name = decoded(request.header("Mcp-Name"));
  if (!name || request.header("Mcp-Name").empty() || said == nullptr || !said->is_string() ||
      std::string_view(said->as_string()) != *name)
    return wrong(fmt::format("The header Mcp-Name must equal the {} of the request", member));
  if (method != "tools/call") return std::nullopt;
  const auto* arguments = params.if_contains("arguments");
  return argument_mismatch(request,
                           arguments != nullptr && arguments->is_object() ? arguments->as_object() : json::object(),
                           service.input_schema(*name));
}

}  // namespace cove::mcp_http
