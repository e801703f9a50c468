#include "mcp/page.hpp"

#include <fmt/format.h>

#include <charconv>

#include "base/text.hpp"

namespace cove::mcp {
namespace {

namespace json = boost::json;

constexpr std::string_view kMark = "at:";  // what a cursor of ours begins with, so that other text is none

tl::unexpected<Fault> no_cursor() {
  return fault(Code::invalid_params, "Invalid params: unknown cursor");
}

}  // namespace

std::string cursor_for(std::string_view place) {
  return to_base64url(fmt::format("{}{}", kMark, place));
}

Or<std::string> position_of(const json::object& params) {
  const auto* cursor = params.if_contains("cursor");
  if (cursor == nullptr || cursor->is_null()) return std::string();
  if (!cursor->is_string()) return no_cursor();
  const auto place = from_base64url(cursor->as_string());
  if (!place || !place->starts_with(kMark) || place->size() == kMark.size()) return no_cursor();
  return place->substr(kMark.size());
}

Or<> page_of(const json::object& params, std::string_view name, const json::array& all, std::size_t most) {
  const auto place = position_of(params);
  if (!place) return tl::unexpected<Fault>(place.error());
  std::size_t at = 0;
  if (!place->empty()) {
    const auto [end, wrong] = std::from_chars(place->data(), place->data() + place->size(), at);
    if (wrong != std::errc() || end != place->data() + place->size() || at >= all.size()) return no_cursor();
  }
  json::array part;
  for (; at < all.size() && part.size() < most; ++at) part.push_back(all[at]);
  json::object result;
  result[name] = std::move(part);
  if (at < all.size()) result["nextCursor"] = cursor_for(std::to_string(at));
  return result;
}

}  // namespace cove::mcp
