#include "schema/references.hpp"

#include <charconv>

namespace cove::schema {
namespace {

namespace json = boost::json;

constexpr std::size_t kDeepestSchema = 128;
constexpr std::size_t kMostNames = 10'000;

const json::value* member_of(const json::value& value, std::string_view name) {
  if (value.is_object()) return value.as_object().if_contains(name);
  if (!value.is_array()) return nullptr;
  std::size_t index = 0;
  const auto [end, wrong] = std::from_chars(name.data(), name.data() + name.size(), index);
  if (wrong != std::errc() || end != name.data() + name.size() || index >= value.as_array().size()) return nullptr;
  return &value.as_array()[index];
}

int hex_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// "%25" and the pointer's own "~1" and "~0".
std::string unescape(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hex_of(text[i + 1]) >= 0 && hex_of(text[i + 2]) >= 0) {
      plain += static_cast<char>(hex_of(text[i + 1]) * 16 + hex_of(text[i + 2]));
      i += 2;
    } else {
      plain += text[i];
    }
  }
  std::string out;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    if (plain[i] == '~' && i + 1 < plain.size() && (plain[i + 1] == '0' || plain[i + 1] == '1'))
      out += plain[++i] == '0' ? '~' : '/';
    else
      out += plain[i];
  }
  return out;
}

const json::value* follow_pointer(const json::value& from, std::string_view pointer) {
  const auto* at = &from;
  while (at != nullptr && !pointer.empty()) {
    pointer.remove_prefix(1);
    const auto slash = pointer.find('/');
    at = member_of(*at, unescape(pointer.substr(0, slash)));
    pointer = slash == std::string_view::npos ? std::string_view() : pointer.substr(slash);
  }
  return at;
}

std::string_view text_in(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string_view(value->as_string()) : std::string_view();
}

}  // namespace

References::References(const json::value& root) : root_(root) {
  collect(root, 0);
}

void References::collect(const json::value& value, std::size_t depth) {
  if (depth > kDeepestSchema || anchors_.size() + ids_.size() > kMostNames) return;
  if (value.is_array()) {
    for (const auto& item : value.as_array()) collect(item, depth + 1);
    return;
  }
  if (!value.is_object()) return;
  const auto& object = value.as_object();
  for (const auto* name : {"$anchor", "$dynamicAnchor"}) {
    if (const auto anchor = text_in(object, name); !anchor.empty()) anchors_.emplace(anchor, &value);
  }
  if (const auto id = text_in(object, "$id"); id.starts_with('#'))
    anchors_.emplace(id.substr(1), &value);  // as draft-07 has them
  else if (!id.empty())
    ids_.emplace(id.substr(0, id.find('#')), &value);
  for (const auto& [name, member] : object) {
    // Data, which may look like a schema.
    if (name == "const" || name == "enum" || name == "default" || name == "examples") continue;
    collect(member, depth + 1);
  }
}

const json::value* References::find(std::string_view reference) const {
  const auto hash = reference.find('#');
  const auto resource = reference.substr(0, hash);
  const auto fragment = hash == std::string_view::npos ? std::string_view() : reference.substr(hash + 1);
  const auto* from = &root_;
  if (!resource.empty()) {
    const auto known = ids_.find(resource);
    if (known == ids_.end()) return nullptr;
    from = known->second;
  }
  if (fragment.empty()) return from;
  if (fragment.starts_with('/')) return follow_pointer(*from, fragment);
  const auto named = anchors_.find(unescape(fragment));
  return named == anchors_.end() ? nullptr : named->second;
}

}  // namespace cove::schema
