#include "doors/mcp/arguments.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/units.hpp"
#include "json/fields.hpp"

namespace cove::doors::mcp {
namespace {

namespace json = boost::json;
using cove::json::given_field;

constexpr std::uint64_t kMinMemory = std::uint64_t{16} << 20;
constexpr std::size_t kMaxWords = std::size_t{1}
                                  << 20;  // bytes of arguments or variables that a program is started with

tl::unexpected<Error> wrong_type(std::string_view name, std::string_view wanted) {
  return fail(Errc::invalid, fmt::format("Invalid argument: {} must be {}", name, wanted));
}

// With the prefix that errors of arguments have.
template <typename T>
Result<T> argument(Result<T> field) {
  if (!field) return fail(Errc::invalid, "Invalid argument: " + field.error().message);
  return field;
}

}  // namespace

Result<std::optional<std::string>> text_argument(const json::object& arguments, std::string_view name) {
  return argument(cove::json::text_field(arguments, name));
}

Result<std::string> required_text(const json::object& arguments, std::string_view name) {
  COVE_TRY(const auto text, text_argument(arguments, name));
  if (!text) return fail(Errc::invalid, fmt::format("Missing required parameter: {}", name));
  return *text;
}

Result<bool> flag_argument(const json::object& arguments, std::string_view name) {
  COVE_TRY(const auto flag, argument(cove::json::bool_field(arguments, name)));
  return flag.value_or(false);
}

Result<std::optional<double>> number_argument(const json::object& arguments, std::string_view name) {
  const auto* value = given_field(arguments, name);
  if (value == nullptr || !value->is_string()) return argument(cove::json::number_field(arguments, name));
  // Models write "5" for 5.
  const std::string_view text = value->as_string();
  double number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc() || end != text.data() + text.size() || !std::isfinite(number))
    return wrong_type(name, "a number");
  return std::optional(number);
}

Result<std::optional<double>> seconds_argument(const json::object& arguments, std::string_view name) {
  COVE_TRY(const auto seconds, number_argument(arguments, name));
  if (seconds && !(*seconds > 0)) return wrong_type(name, "greater than 0");
  return seconds;
}

Result<std::uint64_t> memory_argument(const json::object& arguments, std::uint64_t max_bytes) {
  COVE_TRY(const auto text, text_argument(arguments, "memory"));
  if (!text || text->empty()) return std::uint64_t{0};
  const auto bytes = parse_size(*text);
  if (!bytes || *bytes < kMinMemory || *bytes > max_bytes)
    return wrong_type(
        "memory", fmt::format("a size from {} to {}, for example 2G", format_size(kMinMemory), format_size(max_bytes)));
  return *bytes;
}

Result<std::optional<std::uint64_t>> integer_argument(const json::object& arguments, std::string_view name,
                                                      IntegerRange range) {
  COVE_TRY(const auto number, number_argument(arguments, name));
  if (!number) return std::optional<std::uint64_t>();
  const bool fits = *number >= static_cast<double>(range.min) && *number <= static_cast<double>(range.max);
  if (!fits || *number != std::floor(*number))
    return wrong_type(name, fmt::format("a whole number from {} to {}", range.min, range.max));
  return std::optional(static_cast<std::uint64_t>(*number));
}

Result<std::vector<std::string>> strings_argument(const json::object& arguments, std::string_view name) {
  std::vector<std::string> out;
  std::size_t bytes = 0;
  const auto* value = given_field(arguments, name);
  if (value == nullptr) return out;
  if (!value->is_array()) return wrong_type(name, "a list of strings");
  for (const auto& element : value->as_array()) {
    if (!element.is_string()) return wrong_type(name, "a list of strings");
    out.emplace_back(element.as_string());
    if (out.back().find('\0') != std::string::npos) return wrong_type(name, "a list of strings without NUL");
    bytes += out.back().size() + 1;
    if (bytes > kMaxWords) return wrong_type(name, fmt::format("at most {} bytes", kMaxWords));
  }
  return out;
}

Result<std::vector<std::string>> variables_argument(const json::object& arguments, std::string_view name) {
  std::vector<std::string> out;
  std::size_t bytes = 0;
  const auto* value = given_field(arguments, name);
  if (value == nullptr) return out;
  if (!value->is_object()) return wrong_type(name, "an object of strings");
  for (const auto& [key, element] : value->as_object()) {
    if (!element.is_string()) return wrong_type(fmt::format("{}.{}", name, std::string_view(key)), "a string");
    auto variable = fmt::format("{}={}", std::string_view(key), std::string_view(element.as_string()));
    if (key.empty() || key.find('=') != std::string_view::npos || variable.find('\0') != std::string::npos)
      return wrong_type(name, "an object whose names are neither empty nor contain = or NUL");
    bytes += variable.size() + 1;
    if (bytes > kMaxWords) return wrong_type(name, fmt::format("at most {} bytes", kMaxWords));
    out.push_back(std::move(variable));
  }
  return out;
}

Result<config::Language> language_argument(const json::object& arguments, const config::Languages& languages) {
  COVE_TRY(const auto name, required_text(arguments, "language"));
  const auto known = languages.by_name(name);
  if (known) return *known;
  std::string names;
  for (const auto& one : languages.all()) names += (names.empty() ? "" : ", ") + one.name;
  return fail(Errc::invalid, fmt::format("Unsupported language: {}. Supported: {}", name, names));
}

Result<SessionArgument> session_argument(const json::object& arguments, const config::Languages& languages) {
  SessionArgument out{.name = {}, .language = "python"};
  COVE_TRY(const auto name, text_argument(arguments, "session_id"));
  out.name = name.value_or("");
  if (given_field(arguments, "language") == nullptr) return out;
  COVE_TRY(const auto language, language_argument(arguments, languages));
  out.language = language.name;
  return out;
}

Result<std::string> filename_argument(const json::object& arguments, const config::Language& language) {
  COVE_TRY(const auto given, text_argument(arguments, "filename"));
  if (!given || given->empty()) return std::string();
  COVE_TRY(auto name, path_argument(*given, "filename"));
  const auto base = name.substr(name.rfind('/') + 1);
  if (base.find('.') == std::string::npos) name += language.extensions.front();
  return name;
}

Result<std::string> path_argument(std::string path, std::string_view name) {
  const auto refuse = [&](std::string_view why) {
    return fail(Errc::invalid, fmt::format("Invalid argument: {} {}", name, why));
  };
  if (path.size() > 4096) return refuse("is too long for a path");  // before the whole text is scanned
  while (path.starts_with("./")) path.erase(0, 2);
  if (path.empty()) return refuse("is empty");
  if (path.starts_with('/')) return refuse("must be relative to the workspace");
  if (path.find('\0') != std::string::npos) return refuse("is not a path");
  for (std::size_t at = 0; at <= path.size();) {
    const auto slash = std::min(path.find('/', at), path.size());
    if (std::string_view(path).substr(at, slash - at) == "..") return refuse("must not contain ..");
    at = slash + 1;
  }
  if (path.ends_with('/')) return refuse("names a directory");
  return path;
}

Result<std::string> workspace_path(const json::object& arguments, Root root) {
  COVE_TRY(const auto given, text_argument(arguments, "path"));
  auto path = given.value_or("");
  if (path == "/workspace") path = "";
  if (path.starts_with("/workspace/")) path.erase(0, std::string_view("/workspace/").size());
  while (path.ends_with('/') && root == Root::allowed) path.pop_back();
  if (root == Root::allowed && (path.empty() || path == ".")) return std::string();
  if (!given) return fail(Errc::invalid, "Missing required parameter: path");
  return path_argument(std::move(path), "path");
}

}  // namespace cove::doors::mcp
