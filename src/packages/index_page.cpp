#include "packages/index_page.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace cove::packages {
namespace {

constexpr std::size_t kMaxLinks = 50'000;
constexpr std::size_t kMaxName = 100;
constexpr std::size_t kMaxVersion = 64;

bool letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// The character that "&amp;" or "&#38;" stands for; those that addresses and versions are written with.
std::optional<char> entity(std::string_view name) {
  if (name == "amp") return '&';
  if (name == "lt") return '<';
  if (name == "gt") return '>';
  if (name == "quot") return '"';
  if (!name.starts_with('#')) return std::nullopt;
  name.remove_prefix(1);
  const bool hex = name.starts_with('x') || name.starts_with('X');
  if (hex) name.remove_prefix(1);
  unsigned value = 0;
  const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), value, hex ? 16 : 10);
  if (failed != std::errc() || end != name.data() + name.size() || value < 0x20 || value > 0x7e) return std::nullopt;
  return static_cast<char>(value);
}

std::string unescaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto semicolon = text.front() == '&' ? text.substr(0, 12).find(';') : std::string_view::npos;
    const auto found = semicolon == std::string_view::npos ? std::nullopt : entity(text.substr(1, semicolon - 1));
    out.push_back(found.value_or(text.front()));
    text.remove_prefix(found ? semicolon + 1 : 1);
  }
  return out;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out.push_back(c);
  }
  return out;
}

void skip_blanks(std::string_view& text) {
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
}

struct Attribute {
  std::string name;
  std::string value;
};

// The next attribute of a tag, taken off the front of `tag`; nullopt at its end.
std::optional<Attribute> next_attribute(std::string_view& tag) {
  skip_blanks(tag);
  if (tag.empty() || tag.front() == '>') return std::nullopt;
  Attribute attribute;
  while (!tag.empty() && !blank(tag.front()) && tag.front() != '=' && tag.front() != '>') {
    attribute.name.push_back(lower(tag.front()));
    tag.remove_prefix(1);
  }
  skip_blanks(tag);
  if (tag.empty() || tag.front() != '=') {
    if (attribute.name.empty() && !tag.empty()) tag.remove_prefix(1);
    return attribute;
  }
  tag.remove_prefix(1);
  skip_blanks(tag);
  const char quote = !tag.empty() && (tag.front() == '"' || tag.front() == '\'') ? tag.front() : '\0';
  if (quote != '\0') tag.remove_prefix(1);
  const auto end = quote != '\0' ? tag.find(quote) : tag.find_first_of(" \t\r\n\f>");
  attribute.value = unescaped(tag.substr(0, end));
  tag.remove_prefix(end == std::string_view::npos ? tag.size() : end + (quote != '\0' ? 1 : 0));
  return attribute;
}

// The last part of a path, if it is the name of a wheel.
std::string wheel_name(std::string_view target) {
  target = target.substr(0, target.find('?'));
  auto name = target.substr(target.rfind('/') + 1);
  std::string out;
  while (!name.empty()) {
    unsigned value = 0;
    const bool encoded = name.front() == '%' && name.size() >= 3 &&
                         std::from_chars(name.data() + 1, name.data() + 3, value, 16).ptr == name.data() + 3;
    out.push_back(encoded ? static_cast<char>(value) : name.front());
    name.remove_prefix(encoded ? 3 : 1);
  }
  const bool plain = std::ranges::all_of(
      out, [](char c) { return letter_or_digit(c) || c == '.' || c == '_' || c == '+' || c == '!' || c == '-'; });
  return plain && out.ends_with(".whl") && out.size() <= 255 && !out.starts_with('.') ? out : std::string();
}

// "sha256=…" and the like.
bool good_fragment(std::string_view text) {
  const auto equals = text.find('=');
  return equals != std::string_view::npos && text.size() <= 200 &&
         std::ranges::all_of(text.substr(0, equals), letter_or_digit) &&
         std::ranges::all_of(text.substr(equals + 1), letter_or_digit);
}

}  // namespace

Result<std::vector<IndexLink>> read_index_page(std::string_view html, const outbound::Url& base) {
  std::vector<IndexLink> links;
  while (true) {
    const auto open = html.find('<');
    if (open == std::string_view::npos) return links;
    html.remove_prefix(open + 1);
    if (html.size() < 2 || lower(html[0]) != 'a' || !blank(html[1])) continue;
    html.remove_prefix(1);
    IndexLink link;
    std::string href;
    while (auto attribute = next_attribute(html)) {
      if (attribute->name == "href")
        href = std::move(attribute->value);
      else if (attribute->name == "data-requires-python")
        link.requires_python = std::move(attribute->value);
      else if (attribute->name == "data-yanked")
        link.yanked = true;
    }
    auto url = outbound::resolve_url(base, href);
    if (href.empty() || !url) continue;
    link.url = std::move(*url);
    link.file = wheel_name(link.url.target);
    if (link.file.empty()) continue;
    if (const auto hash = href.find('#'); hash != std::string::npos && good_fragment(href.substr(hash + 1)))
      link.fragment = href.substr(hash + 1);
    if (links.size() >= kMaxLinks)
      return fail(Errc::over_limit, fmt::format("the index page has more than {} links", kMaxLinks));
    links.push_back(std::move(link));
  }
}

std::string write_index_page(const std::vector<IndexLink>& links, std::string_view prefix, std::size_t first_number) {
  std::string out = "<!DOCTYPE html>\n<html><body>\n";
  for (std::size_t i = 0; i < links.size(); ++i) {
    const auto& link = links[i];
    out += fmt::format("<a href=\"{}{}/{}{}{}\"", prefix, first_number + i, link.file, link.fragment.empty() ? "" : "#",
                       link.fragment);
    if (!link.requires_python.empty())
      out += fmt::format(" data-requires-python=\"{}\"", escaped(link.requires_python));
    if (link.yanked) out += " data-yanked=\"\"";
    out += fmt::format(">{}</a>\n", link.file);
  }
  return out + "</body></html>\n";
}

std::string project_name(std::string_view name) {
  std::string out;
  for (const char c : name) {
    const bool separator = c == '-' || c == '_' || c == '.';
    if (separator && out.ends_with('-')) continue;
    out.push_back(separator ? '-' : lower(c));
  }
  return out;
}

Result<std::string> requirement(std::string_view name, std::string_view version) {
  const bool plain =
      !name.empty() && name.size() <= kMaxName && letter_or_digit(name.front()) && letter_or_digit(name.back()) &&
      std::ranges::all_of(name, [](char c) { return letter_or_digit(c) || c == '.' || c == '_' || c == '-'; });
  if (!plain)
    return fail(
        Errc::invalid,
        fmt::format("'{}' is not a package name of letters, digits, '.', '_' and '-'; no path, URL, option, extra or "
                    "version (that goes into \"version\")",
                    name.substr(0, kMaxName)));
  if (version.empty()) return std::string(name);
  if (version.size() > kMaxVersion) return fail(Errc::invalid, fmt::format("the version of {} is too long", name));
  std::string out(name);
  auto rest = version;
  while (true) {
    const auto comma = rest.find(',');
    auto clause = rest.substr(0, comma);
    while (!clause.empty() && clause.front() == ' ') clause.remove_prefix(1);
    while (!clause.empty() && clause.back() == ' ') clause.remove_suffix(1);
    std::string_view comparison = "==";
    for (const std::string_view known : {"==", ">=", "<=", "~=", "!=", "<", ">"}) {
      if (!clause.starts_with(known)) continue;
      comparison = known;
      clause.remove_prefix(known.size());
      while (!clause.empty() && clause.front() == ' ') clause.remove_prefix(1);
      break;
    }
    const bool good = !clause.empty() && letter_or_digit(clause.front()) && std::ranges::all_of(clause, [](char c) {
      return letter_or_digit(c) || c == '.' || c == '*' || c == '+' || c == '!' || c == '-' || c == '_';
    });
    if (!good)
      return fail(Errc::invalid, fmt::format("'{}' is not a version of {}, such as 1.2.3 or >=1,<2", version, name));
    if (out.size() > name.size()) out.push_back(',');
    out.append(comparison).append(clause);
    if (comma == std::string_view::npos) return out;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace cove::packages
