#include "tools/codegen/names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/sha256.hpp"
#include "base/text.hpp"

namespace cove::tools::codegen {
namespace {

constexpr std::size_t kLongest = 80;

constexpr auto kKeywords = std::to_array<std::string_view>(
    {"False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
     "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
     "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
     "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield",    "__debug__"});

// What annotations and bodies of generated modules refer to by these names.
constexpr auto kUsedInModules = std::to_array<std::string_view>(
    {"str",         "int",      "float",     "bool",  "bytes", "list",      "dict",   "tuple",    "set",
     "type",        "object",   "datetime",  "date",  "time",  "timedelta", "conint", "confloat", "constr",
     "annotations", "run_sync", "run_async", "print", "super", "property",  "sys",    "aio"});

// Attributes of every model: a field of such a name would hide one.
constexpr auto kOfModels =
    std::to_array<std::string_view>({"copy", "dict", "json", "construct", "schema", "schema_json", "validate",
                                     "parse_obj", "parse_raw", "parse_file", "from_orm", "update_forward_refs"});

constexpr auto kOfEnumerations = std::to_array<std::string_view>({"mro", "name", "value"});

template <std::size_t n>
bool among(const std::array<std::string_view, n>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
char upper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

// Each character, not each byte, that no identifier has becomes one '_'.
std::string plain(std::string_view raw) {
  const auto text = valid_utf8(raw) ? std::string(raw) : replace_invalid_utf8(raw);
  std::string out;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xc0) == 0x80) continue;
    out += is_letter(c) || is_digit(c) ? c : '_';
  }
  return out;
}

// A name too long for a file, told from others that begin the same.
std::string of_good_length(std::string name, std::string_view whole) {
  if (name.size() <= kLongest) return name;
  Sha256 sum;
  sum.add(whole);
  return name.substr(0, kLongest - 9) + "_" + sum.hex().substr(0, 8);
}

}  // namespace

std::string tool_name(std::string_view name) {
  auto out = plain(name);
  std::ranges::transform(out, out.begin(), lower);
  out = of_good_length(std::move(out), name);
  if (out.empty()) return "tool";
  if (is_digit(out.front())) out = "tool_" + out;
  if (out.starts_with("__")) out = "tool" + out;
  if (among(kKeywords, out) || among(kUsedInModules, out)) out += '_';
  return out;
}

std::string field_name(std::string_view name) {
  auto out = of_good_length(plain(name), name);
  if (out.empty()) return "field";
  if (out.front() == '_') out = "field" + out;
  if (is_digit(out.front())) out = "field_" + out;
  if (among(kKeywords, out) || among(kOfModels, out) || out.starts_with("model_") || out == "self" || out == "cls")
    out += '_';
  return out;
}

std::string class_name(std::string_view name) {
  std::string out;
  bool begins = true;
  for (const char c : plain(name)) {
    if (c == '_')
      begins = true;
    else
      out += std::exchange(begins, false) ? upper(c) : c;
  }
  if (out.empty()) return "Model";
  if (is_digit(out.front())) out = "Model" + out;
  return out.substr(0, kLongest);
}

std::string singular(std::string_view name) {
  if (name.size() > 3 && name.ends_with("ies")) return std::string(name.substr(0, name.size() - 3)) + "y";
  for (const std::string_view end : {"sses", "shes", "ches", "xes"}) {
    if (name.size() > end.size() && name.ends_with(end)) return std::string(name.substr(0, name.size() - 2));
  }
  if (name.size() > 1 && name.ends_with('s') && !name.ends_with("ss") && !name.ends_with("us"))
    return std::string(name.substr(0, name.size() - 1));
  return std::string(name);
}

std::string member_name(std::string_view text) {
  auto out = of_good_length(plain(text), text);
  if (out.empty() || out.front() == '_') out = "field" + (out.empty() ? std::string("_") : out);
  if (is_digit(out.front())) out = "field_" + out;
  if (among(kKeywords, out) || among(kOfEnumerations, out)) out += '_';
  return out;
}

bool good_package_name(std::string_view name) {
  if (name.empty() || name.size() > 100 || is_digit(name.front()) || name.starts_with("__")) return false;
  return std::ranges::all_of(name, [](char c) { return is_letter(c) || is_digit(c) || c == '_'; }) &&
         !among(kKeywords, name);
}

bool good_package_path(std::string_view path) {
  if (path.empty() || path.size() > 500) return false;
  while (!path.empty()) {
    const auto slash = path.find('/');
    if (!good_package_name(path.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
  return false;
}

std::string Names::take(std::string name, std::string_view between) {
  auto given = name;
  for (int number = 1; !taken_.insert(given).second; ++number) given = fmt::format("{}{}{}", name, between, number);
  return given;
}

}  // namespace cove::tools::codegen
