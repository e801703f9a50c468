#include "http/cors.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "http/encoding.hpp"

namespace cove::http {
namespace {

constexpr std::string_view kMethods = "GET, HEAD, POST, PUT, PATCH, DELETE";
constexpr std::string_view kRemembered = "600";  // seconds

// "a, b" of the names that a header may have; the rest is left out.
std::string names_in(std::string_view list) {
  std::string names;
  while (!list.empty()) {
    const auto name = trim(take_until(list, ','));
    if (!is_token(name)) continue;
    if (!names.empty()) names += ", ";
    names += name;
  }
  return names;
}

}  // namespace

std::string page_origin(const Request& request, const std::vector<std::string>& listed) {
  const auto origins = request.header_all("Origin");
  if (origins.size() != 1) return "";
  const auto is_it = [&](const std::string& one) { return equals_ignoring_case(one, origins.front()); };
  return std::ranges::any_of(listed, is_it) ? std::string(origins.front()) : "";
}

std::optional<Response> preflight_answer(const Request& request, std::string_view page) {
  if (page.empty() || request.method != verb::options || request.header("Access-Control-Request-Method").empty())
    return std::nullopt;
  Response response{.status = 204, .content_type = ""};
  response.headers = {{"Access-Control-Allow-Methods", std::string(kMethods)},
                      {"Access-Control-Max-Age", std::string(kRemembered)}};
  if (const auto names = names_in(request.header("Access-Control-Request-Headers")); !names.empty())
    response.headers.emplace_back("Access-Control-Allow-Headers", names);
  if (request.header("Access-Control-Request-Private-Network") == "true")
    response.headers.emplace_back("Access-Control-Allow-Private-Network", "true");
  return response;
}

void admit_page(std::string_view page, NameValues& headers) {
  std::string names = "X-Request-Id";
  for (const auto& [name, value] : headers) {
    if (!name.starts_with("Access-Control-") && !equals_ignoring_case(name, "Vary")) names += ", " + name;
  }
  headers.emplace_back("Access-Control-Allow-Origin", page);
  headers.emplace_back("Access-Control-Expose-Headers", names);
  headers.emplace_back("Vary", "Origin");
}

}  // namespace cove::http
