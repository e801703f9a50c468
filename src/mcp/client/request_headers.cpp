#include "mcp/client/request_headers.hpp"

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "json/fields.hpp"
#include "mcp/mirrored.hpp"
#include "mcp/revision.hpp"

namespace cove::mcp::client {
namespace {

namespace json = boost::json;

constexpr std::string_view kName = "x-mcp-header";
constexpr std::size_t kDeepestSchema = 64;

bool token_text(std::string_view text) {
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kOthers.find(c) != kOthers.npos;
  });
}

std::string small(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return out;
}

// How many members of this name there are, wherever they stand. A property may be called so.
std::size_t count_of(const json::value& value, std::size_t depth, bool properties = false) {
  if (depth > kDeepestSchema) return 0;
  std::size_t count = 0;
  if (value.is_object()) {
    for (const auto& [name, member] : value.as_object()) {
      if (!properties && std::string_view(name) == kName) ++count;
      count += count_of(member, depth + 1, !properties && std::string_view(name) == "properties");
    }
  } else if (value.is_array()) {
    for (const auto& item : value.as_array()) count += count_of(item, depth + 1);
  }
  return count;
}

Result<std::size_t> check_properties(const json::object& schema, std::set<std::string>& seen, std::size_t depth) {
  std::size_t found = 0;
  const auto* properties = schema.if_contains("properties");
  if (properties == nullptr || !properties->is_object() || depth > kDeepestSchema) return found;
  for (const auto& [name, property] : properties->as_object()) {
    if (!property.is_object()) continue;
    const auto& inner = property.as_object();
    if (const auto* header = inner.if_contains(kName)) {
      ++found;
      if (!header->is_string() || !token_text(header->as_string()))
        return fail(Errc::conflict, fmt::format("{} is no name of a header", kName));
      const auto type = cove::json::text_of(inner, "type");
      if (type != "string" && type != "integer" && type != "boolean")
        return fail(Errc::conflict,
                    fmt::format("{} stands on a property that is neither a string, an integer nor a boolean", kName));
      if (!seen.insert(small(header->as_string())).second)
        return fail(Errc::conflict, fmt::format("{} names a header twice", kName));
    }
    COVE_TRY(const auto below, check_properties(inner, seen, depth + 1));
    found += below;
  }
  return found;
}

}  // namespace

std::string header_text(std::string_view text) {
  const bool plain = std::ranges::all_of(text, [](char c) { return c >= 0x20 && c <= 0x7e; });
  const bool padded = !text.empty() && (text.front() == ' ' || text.back() == ' ');
  const bool sentinel = text.starts_with("=?base64?") && text.ends_with("?=");
  if (plain && !padded && !sentinel) return std::string(text);
  return fmt::format("=?base64?{}?=", base64(text));
}

void add_standard_headers(outbound::Headers& headers, std::string_view method, const json::object& params) {
  headers.emplace_back("MCP-Protocol-Version", name_of(kModern));
  headers.emplace_back("Mcp-Method", method);
  std::string_view member;
  if (method == "tools/call" || method == "prompts/get") member = "name";
  if (method == "resources/read") member = "uri";
  if (method.starts_with("tasks/")) member = "taskId";
  if (member.empty()) return;
  if (const auto* value = params.if_contains(member); value != nullptr && value->is_string())
    headers.emplace_back("Mcp-Name", header_text(value->as_string()));
}

outbound::Headers mirrored_headers(const json::object& input_schema, const json::object& arguments) {
  outbound::Headers out;
  for (const auto& mirrored : mirrored_arguments(input_schema)) {
    const auto* argument = find_argument(arguments, mirrored.path);
    if (argument == nullptr) continue;
    if (argument->is_string())
      out.emplace_back(mirrored.header, header_text(argument->as_string()));
    else if (argument->is_bool() || argument->is_number())
      out.emplace_back(mirrored.header, json::serialize(*argument));
  }
  return out;
}

Result<> check_mirrored(const json::object& input_schema) {
  std::set<std::string> seen;
  COVE_TRY(const auto found, check_properties(input_schema, seen, 0));
  // Elsewhere, below `items` or `anyOf` for one, nobody could say which argument is meant.
  if (count_of(input_schema, 0) > found)
    return fail(Errc::conflict, fmt::format("{} stands where no property of the arguments is", kName));
  return {};
}

}  // namespace cove::mcp::client
