#include "doors/resources/tool_requests.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "json/fields.hpp"
#include "tools/codegen/names.hpp"

namespace cove::doors::resources {

namespace bj = boost::json;

Result<ServerPath> split_server_path(std::string_view path) {
  const auto slash = path.rfind('/');
  ServerPath out{.directory = std::string(slash == std::string_view::npos ? "" : path.substr(0, slash)),
                 .server = std::string(slash == std::string_view::npos ? path : path.substr(slash + 1))};
  if (!tools::codegen::good_package_name(out.server))
    return fail(Errc::invalid, "Invalid server name: it must be a Python module name");
  if (!out.directory.empty() && !tools::codegen::good_package_path(out.directory))
    return fail(Errc::invalid, "Invalid path: escapes root directory or is no path of Python packages");
  return out;
}

std::variant<bj::object, fastapi::Problems> parse_server_params(std::string_view body) {
  boost::system::error_code failed;
  auto value = bj::parse(body, failed);
  if (!failed && value.is_object()) return std::move(value.get_object());
  fastapi::Checker checker;
  if (failed)
    checker.complain("json_invalid", R"("body",0)", "JSON decode error", "{}");
  else
    checker.complain("dict_type", R"("body")", "Input should be a valid dictionary",
                     bj::serialize(value).substr(0, 1000));
  return checker.problems();
}

Result<tools::Definition> definition_of(std::string name, bj::object params) {
  if (params.contains("command") && !params.contains("place")) params["place"] = "inside";
  if (!params.contains("command") && !params.contains("url")) {
    params.erase("directory");
    const auto shown = bj::serialize(params);
    return fail(Errc::invalid, fmt::format("Neither a \"command\" nor a \"url\" key in server_params: {}",
                                           std::string_view(shown).substr(0, 500)));
  }
  return tools::parse_definition(std::move(name), std::move(params));
}

std::string free_name(const std::vector<tools::ServerView>& there, const tools::Definition& definition) {
  auto name = definition.name;
  const auto taken = [&] {
    return std::ranges::any_of(there, [&](const tools::ServerView& view) {
      return view.definition->name == name && view.definition->directory != definition.directory;
    });
  };
  for (int number = 2; taken(); ++number) name = fmt::format("{}_{}", definition.name, number);
  return name;
}

bj::object run_failure(const tools::Failure& failure) {
  bj::object out{{"error", failure.message}};
  if (failure.kind == tools::Failure::Kind::rejected) out["type"] = "rejected";
  if (failure.kind == tools::Failure::Kind::timeout) out["type"] = "timeout";
  return out;
}

bj::object run_answer(const tools::Outcome& outcome) {
  if (!outcome) return run_failure(outcome.error());
  std::string text;
  bool any = false;
  for (const auto& block : outcome->content) {
    if (!block.is_object() || cove::json::text_of(block.get_object(), "type") != "text") continue;
    text += (any ? "\n" : "") + cove::json::text_of(block.get_object(), "text");
    any = true;
  }
  if (outcome->is_error) return {{"error", any ? text : "the tool failed and says nothing of why"}};
  if (outcome->structured) return {{"result", *outcome->structured}};
  return {{"result", any ? bj::value(text) : bj::value()}};
}

}  // namespace cove::doors::resources
