#include "doors/resources/requests.hpp"

#include "base/text.hpp"

namespace cove::doors::resources {

std::optional<std::string> relative_path(std::string_view path) {
  if (path.starts_with('/')) return std::nullopt;
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    const auto part = take_until(path, '/');
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      parts.push_back(part);
    } else if (parts.empty()) {
      return std::nullopt;
    } else {
      parts.pop_back();
    }
  }
  std::string out;
  for (const auto part : parts) {
    if (!out.empty()) out += '/';
    out += part;
  }
  return out;
}

std::string named_member(std::string_view message) {
  for (const std::string_view before : {"member '", "link '", "hard link '"}) {
    if (!message.starts_with(before)) continue;
    message.remove_prefix(before.size());
    // The name may have quotes itself: the words after it are the helper's, and begin with a blank.
    const auto end = message.find("' ");
    if (end != std::string_view::npos) return std::string(message.substr(0, end));
  }
  return {};
}

std::variant<std::vector<std::string>, fastapi::Problems> parse_modules(const http::Request& request) {
  auto names = request.query_all("q");
  if (!names.empty()) return names;
  fastapi::Checker checker;
  checker.complain("missing", R"("query","q")", "Field required", "null");
  return checker.problems();
}

}  // namespace cove::doors::resources
