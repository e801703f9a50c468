#include "doctor/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <string_view>
#include <vector>

#include "base/text.hpp"

namespace cove::doctor {
namespace {

namespace json = boost::json;

constexpr std::size_t kColumns = 100;
constexpr std::size_t kStatusWidth = 6;
constexpr std::size_t kLabelWidth = 13;  // "consequence: "

// What the kernel's files hold goes to a terminal: one line of plain text, whatever is in them.
std::string plain(std::string_view text) {
  std::string out = replace_invalid_utf8(text);
  std::ranges::replace_if(out, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return out;
}

// Breaks between words; a word that is longer than a line is cut.
std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines{""};
  while (!text.empty()) {
    auto word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > width) lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    for (; word.size() > width; word.remove_prefix(width)) {
      lines.back() += word.substr(0, width);
      lines.emplace_back();
    }
    lines.back() += word;
  }
  return lines;
}

// `text` from column `indent` on; what stands before it on the first line has been written.
void put(std::string& out, std::string_view text, std::size_t indent) {
  bool first = true;
  for (const auto& line : wrapped(plain(text), kColumns - indent)) {
    if (!first) out.append(indent, ' ');
    first = false;
    out += line;
    out += '\n';
  }
}

std::string label(Status status, Colour colour) {
  const std::string_view word = status == Status::fail ? "FAIL" : name_of(status);
  const auto padded = fmt::format("{:<{}}", word, kStatusWidth);
  if (colour == Colour::none) return padded;
  const int code = status == Status::ok ? 32 : status == Status::warn ? 33 : 31;
  return fmt::format("\x1b[{}m{}\x1b[0m", code, padded);
}

std::size_t count(std::span<const Check> checks, Status status) {
  return static_cast<std::size_t>(std::ranges::count(checks, status, &Check::status));
}

std::string conclusion(std::span<const Check> checks) {
  if (enforced(checks)) {
    const auto warnings = count(checks, Status::warn);
    return fmt::format("this host enforces the default profile{}", warnings == 0 ? ""
                                                                   : warnings == 1
                                                                       ? "; 1 warning"
                                                                       : fmt::format("; {} warnings", warnings));
  }
  std::string list;
  for (const auto& check : checks) {
    if (check.status == Status::fail) list += (list.empty() ? "cannot: " : ", ") + check.title;
  }
  return list;
}

}  // namespace

bool enforced(std::span<const Check> checks) {
  return count(checks, Status::fail) == 0;
}

std::string table(std::span<const Check> checks, Colour colour) {
  std::size_t title_width = 0;
  for (const auto& check : checks) title_width = std::max(title_width, check.title.size());
  const auto found_column = kStatusWidth + title_width + 2;

  std::string out;
  for (const auto& check : checks) {
    out += label(check.status, colour);
    out += fmt::format("{:<{}}  ", check.title, title_width);
    put(out, check.found, found_column);
    for (const auto& [name, text] : {std::pair{"consequence:", &check.consequence}, std::pair{"fix:", &check.fix}}) {
      if (text->empty()) continue;
      out += std::string(kStatusWidth, ' ') + fmt::format("{:<{}}", name, kLabelWidth);
      put(out, *text, kStatusWidth + kLabelWidth);
    }
  }
  out += '\n';
  put(out, conclusion(checks), 0);
  return out;
}

std::string to_json(std::span<const Check> checks) {
  json::array list;
  json::array cannot;
  for (const auto& check : checks) {
    list.push_back({{"id", check.id},
                    {"title", check.title},
                    {"status", name_of(check.status)},
                    {"found", plain(check.found)},
                    {"consequence", check.consequence},
                    {"fix", check.fix}});
    if (check.status == Status::fail) cannot.emplace_back(check.id);
  }
  return json::serialize(json::object{
      {"enforced", enforced(checks)}, {"cannot", cannot}, {"warnings", count(checks, Status::warn)}, {"checks", list}});
}

}  // namespace cove::doctor
