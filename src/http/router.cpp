#include "http/router.hpp"

#include <algorithm>
#include <stdexcept>

#include "base/text.hpp"
#include "http/encoding.hpp"

namespace cove::http {
namespace {

bool is_parameter(std::string_view segment) {
  return segment.size() > 2 && segment.front() == '{' && segment.back() == '}';
}

std::vector<std::string> split(std::string_view path) {
  std::vector<std::string> segments;
  for (;;) {
    const auto slash = path.find('/');
    segments.emplace_back(path.substr(0, slash));
    if (slash == std::string_view::npos) return segments;
    path.remove_prefix(slash + 1);
  }
}

// Text before parameters, from the left.
bool more_specific(const Router::Route& a, const Router::Route& b) {
  for (std::size_t i = 0; i < std::min(a.segments.size(), b.segments.size()); ++i) {
    const bool a_text = !is_parameter(a.segments[i]);
    if (a_text != !is_parameter(b.segments[i])) return a_text;
  }
  return !a.options.rest && b.options.rest;
}

bool matches(const Router::Route& route, const std::vector<std::string>& segments) {
  const auto& pattern = route.segments;
  const auto own = pattern.size() - (route.options.rest ? 1 : 0);
  if (segments.size() < own || (segments.size() != own && !route.options.rest)) return false;
  for (std::size_t i = 0; i < own; ++i) {
    if (!is_parameter(pattern[i]) && pattern[i] != segments[i]) return false;
  }
  return true;
}

// "a", "b", "" of a path is "a/b/".
std::string rejoined(const std::vector<std::string>& segments, std::size_t from) {
  std::string out;
  for (std::size_t i = from; i < segments.size(); ++i) {
    if (i > from) out += '/';
    out += segments[i];
  }
  return out;
}

bool serves(const Router::Route& route, const std::vector<std::string>& segments) {
  if (!matches(route, segments)) return false;
  if (!route.options.strict) return true;
  const auto own = route.segments.size() - (route.options.rest ? 1 : 0);
  for (std::size_t i = 0; i < own; ++i) {
    if (segments[i].empty() && is_parameter(route.segments[i])) return false;
  }
  return true;
}

bool reached(const Router::Route& route, Reach reach) {
  return reach == Reach::all || route.options.scoped;
}

}  // namespace

void Router::add(verb method, std::string pattern, Handler handler, RouteOptions options) {
  if (!pattern.starts_with('/')) throw std::invalid_argument("a route begins with '/': " + pattern);
  Route route;
  route.method = method;
  route.segments = split(std::string_view(pattern).substr(1));
  route.pattern = std::move(pattern);
  route.handler = std::move(handler);
  route.options = options;
  routes_.push_back(std::move(route));
}

void Router::set_dialect(std::string path, Dialect dialect) {
  dialects_.emplace_back(split(std::string_view(path).substr(1)), std::move(dialect));
}

const Router::Dialect* Router::dialect_of(std::string_view path) const {
  if (!path.starts_with('/')) return nullptr;
  auto segments = split(path.substr(1));
  for (auto& segment : segments) segment = percent_decode(segment).value_or(segment);
  for (const auto& [above, dialect] : dialects_) {
    const auto same = [](const std::string& pattern, const std::string& segment) {
      return pattern == "{}" || pattern == segment;
    };
    if (above.size() <= segments.size() && std::equal(above.begin(), above.end(), segments.begin(), same))
      return dialect ? &dialect : nullptr;
  }
  return nullptr;
}

bool Router::known(const std::vector<std::string>& segments, Reach reach) const {
  return std::ranges::any_of(routes_, [&](const Route& route) {
    return route.options.strict && reached(route, reach) && serves(route, segments);
  });
}

std::variant<Router::Found, Router::NotFound, Router::NotAllowed, Router::Malformed, Router::Moved> Router::find(
    verb method, std::string_view path, Reach reach) const {
  if (!path.starts_with('/')) return NotFound{};
  auto segments = split(path.substr(1));
  for (auto& segment : segments) {
    auto decoded = percent_decode(segment);
    if (!decoded) return Malformed{"the path has a '%' that is not followed by two hex digits"};
    const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == '\x7f'; };
    if (std::ranges::any_of(*decoded, control)) return Malformed{"the path has a control byte"};
    if (!valid_utf8(*decoded)) return Malformed{"the path is not UTF-8"};
    segment = std::move(*decoded);
  }

  const Route* best = nullptr;
  const Route* best_get = nullptr;  // serves HEAD when no route of its own does
  std::vector<verb> methods;
  // A path that is one route's to the letter is not another's without its rest, whatever the method.
  const bool literal = std::ranges::any_of(
      routes_, [&](const Route& route) { return reached(route, reach) && route.segments == segments; });
  for (const auto& route : routes_) {
    if (!reached(route, reach) || !serves(route, segments)) continue;
    if (literal && route.options.rest && segments.size() < route.segments.size()) continue;
    methods.push_back(route.method);
    if (route.method == method && (best == nullptr || more_specific(route, *best))) best = &route;
    if (route.method == verb::get && route.options.head && (best_get == nullptr || more_specific(route, *best_get)))
      best_get = &route;
  }
  if (best == nullptr && method == verb::head) best = best_get;
  if (best != nullptr) {
    Found found;
    found.route = best;
    const auto last = best->segments.size() - 1;
    for (std::size_t i = 0; i <= last; ++i) {
      const auto& pattern = best->segments[i];
      if (!is_parameter(pattern)) continue;
      found.params.emplace_back(pattern.substr(1, pattern.size() - 2),
                                best->options.rest && i == last ? rejoined(segments, i) : std::move(segments[i]));
    }
    return found;
  }
  if (methods.empty()) {
    if (!path.ends_with('/')) return NotFound{};
    while (path.ends_with('/')) path.remove_suffix(1);
    while (!segments.empty() && segments.back().empty()) segments.pop_back();
    if (known(segments, reach)) return Moved{std::string(path)};
    return NotFound{};
  }

  if (best_get != nullptr) methods.push_back(verb::head);
  std::ranges::sort(methods);
  const auto repeated = std::ranges::unique(methods);
  methods.erase(repeated.begin(), repeated.end());
  NotAllowed not_allowed;
  for (const auto allowed : methods) {
    if (!not_allowed.allow.empty()) not_allowed.allow += ", ";
    not_allowed.allow += boost::beast::http::to_string(allowed);
  }
  return not_allowed;
}

}  // namespace cove::http
