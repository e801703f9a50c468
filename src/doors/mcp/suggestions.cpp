#include "doors/mcp/suggestions.hpp"

#include <algorithm>

#include "doors/mcp/file_resources.hpp"

namespace cove::doors::mcp {
namespace {

namespace json = boost::json;
using cove::mcp::Call;

constexpr std::size_t kMaxSuggestions = 100;

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool begins(std::string_view text, std::string_view typed) {
  return text.size() >= typed.size() &&
         std::ranges::equal(text.substr(0, typed.size()), typed, [](char a, char b) { return lower(a) == lower(b); });
}

bool has_in_order(std::string_view text, std::string_view typed) {
  std::size_t at = 0;
  for (const char c : text) {
    if (at < typed.size() && lower(c) == lower(typed[at])) ++at;
  }
  return at == typed.size();
}

}  // namespace

Task<std::vector<std::string>> suggestions(ToolContext& context, Call& call, std::string name, json::object others) {
  std::vector<std::string> all;
  if (name == "language") {
    for (const auto& language : context.languages.all()) all.push_back(language.name);
  } else if (name == "session_id") {
    for (const auto& sandbox : context.services.registry.of(call.tenant, "")) {
      if (!context.sessions.hidden(call, sandbox->name())) all.push_back(sandbox->name());
    }
  } else if (name == "path") {
    const auto* session = others.if_contains("session_id");
    if (session == nullptr || !session->is_string()) co_return all;
    const auto listed = co_await files_of(context.services, call, std::string(session->as_string()));
    if (!listed) co_return all;  // of a session that is not there, nothing
    for (const auto& file : *listed) all.push_back(file.path);
  }
  co_return all;
}

json::object completion(std::vector<std::string> all, std::string_view typed) {
  json::array values;
  std::size_t total = 0;
  const auto take = [&](bool first) {
    for (const auto& one : all) {
      const bool fits = begins(one, typed);
      if (fits != first || (!fits && !has_in_order(one, typed))) continue;
      ++total;
      if (values.size() < kMaxSuggestions) values.emplace_back(one);
    }
  };
  take(true);
  take(false);
  const bool more = total > values.size();
  return {{"completion", {{"values", std::move(values)}, {"total", total}, {"hasMore", more}}}};
}

}  // namespace cove::doors::mcp
