#include "doors/workspace/listing.hpp"

#include <boost/json.hpp>

namespace cove::doors::workspace {

namespace json = boost::json;

Result<Listing> listed_files(const std::string& answer) {
  const auto broken = [] { return fail(Errc::io, "the sandbox's file helper broke the protocol"); };
  boost::system::error_code failed;
  const auto value = json::parse(answer, failed);
  const auto* object = failed ? nullptr : value.if_object();
  const auto* entries = object == nullptr ? nullptr : object->if_contains("entries");
  const auto* cut = object == nullptr ? nullptr : object->if_contains("truncated");
  if (entries == nullptr || !entries->is_array() || cut == nullptr || !cut->is_bool()) return broken();
  constexpr std::string_view kRoot = "/workspace/";
  Listing listing{.files = {}, .cut = cut->as_bool()};
  for (const auto& entry : entries->as_array()) {
    const auto text = [&](std::string_view name) -> std::string_view {
      const auto* field = entry.is_object() ? entry.as_object().if_contains(name) : nullptr;
      return field != nullptr && field->is_string() ? std::string_view(field->as_string()) : std::string_view();
    };
    const auto path = text("path");
    if (!path.starts_with(kRoot)) return broken();
    if (text("type") != "file") continue;
    const auto* size = entry.as_object().if_contains("size");
    const auto bytes = size == nullptr ? std::uint64_t{0} : size->to_number<std::uint64_t>(failed);
    if (failed) return broken();
    listing.files.push_back(
        {.path = std::string(path.substr(kRoot.size())), .size = bytes, .time = std::string(text("mtime"))});
  }
  return listing;
}

}  // namespace cove::doors::workspace
