#include "doors/workspace/efast_grant.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "fastapi/value.hpp"
#include "http/encoding.hpp"

namespace cove::doors::workspace {
namespace {

using fastapi::Value;
using Kind = Value::Kind;

// The client sets these headers itself; the store may not.
bool is_ours(std::string_view name) {
  constexpr auto kOurs = std::to_array<std::string_view>({"host", "content-length", "transfer-encoding", "connection",
                                                          "user-agent", "accept-encoding", "expect", "upgrade"});
  return std::ranges::count(kOurs, http::to_lower(name)) != 0;
}

std::string text_of(const Value& object, std::string_view name) {
  const auto* value = object.member(name);
  return value != nullptr && value->kind == Kind::text ? value->text : "";
}

}  // namespace

Result<EfastGrant> parse_grant(std::string_view answer) {
  const auto parsed = fastapi::parse_json(answer);
  const auto* object = std::get_if<Value>(&parsed);
  const auto* request = object == nullptr ? nullptr : object->member("authrequest");
  const bool whole = request != nullptr && request->kind == Kind::array && request->items.size() >= 4 &&
                     std::ranges::all_of(request->items, [](const Value& item) { return item.kind == Kind::text; });
  if (!whole) return fail(Errc::invalid, "Invalid auth request format");
  EfastGrant grant;
  COVE_TRY(grant.url, outbound::parse_url(request->items[1].text));
  for (std::size_t i = 2; i < request->items.size(); ++i) {
    const std::string_view line = request->items[i].text;
    const auto colon = line.find(':');
    if (colon == std::string_view::npos || colon == 0) return fail(Errc::invalid, "Invalid auth request format");
    const auto name = line.substr(0, colon);
    if (!is_ours(name)) grant.headers.emplace_back(name, http::trim(line.substr(colon + 1)));
  }
  grant.name = text_of(*object, "name");
  grant.rev = text_of(*object, "rev");
  if (const auto* size = object->member("size"); size != nullptr && size->kind == Kind::integer)
    std::from_chars(size->text.data(), size->text.data() + size->text.size(), grant.size);
  return grant;
}

}  // namespace cove::doors::workspace
