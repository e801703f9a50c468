#include "tools/codegen/package.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tools/codegen/literal.hpp"
#include "tools/codegen/models.hpp"
#include "tools/codegen/names.hpp"
#include "tools/codegen/schema.hpp"

namespace cove::tools::codegen {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxDescription = 64U << 10;
constexpr std::string_view kFirstLine =
    "# Generated from what an MCP server says of its tools. Changes are lost when that is done again.\n";
constexpr std::string_view kWithheld = "<withheld>";

std::string_view cut(std::string_view text) {
  if (text.size() <= kMaxDescription) return text;
  auto end = kMaxDescription;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

bool has_result(const Tool& tool) {
  return tool.output_schema && object_in(merged(*tool.output_schema, *tool.output_schema), "properties") != nullptr;
}

// A docstring in a function; a tool without a description has none.
std::string doc(std::string_view text) {
  return text.empty() ? std::string() : "    " + docstring(text) + "\n";
}

Result<std::string> module_source(const Tool& tool, const std::string& name) {
  Models models;
  COVE_CHECK(models.add_root(tool.input_schema, "Params"));
  const bool typed = has_result(tool);
  if (typed) COVE_CHECK(models.add_root(*tool.output_schema, "Result"));
  const auto wire = string_literal(tool.name);
  const auto description = doc(cut(tool.description));
  auto out = fmt::format("{}from __future__ import annotations\n\n", kFirstLine);
  out += models.imports();
  out += "from ipybox.mcp.run import run_sync\n\nfrom . import CLIENT, SERVER_PARAMS\n\n\n";
  out += models.classes();
  if (name != "run" && name != "arun")
    out += fmt::format(
        "def {}(params: Params) -> str:\n{}    return run_sync({}, CLIENT.arguments(params), SERVER_PARAMS)\n\n\n",
        name, description, wire);
  const auto result = typed ? "Result" : "str";
  const auto class_of_result = typed ? ", Result" : "";
  out += fmt::format("def run(params: Params) -> {}:\n{}    return CLIENT.run({}, params{})\n\n\n", result, description,
                     wire, class_of_result);
  out += fmt::format("async def arun(params: Params) -> {}:\n{}    return await CLIENT.arun({}, params{})\n", result,
                     description, wire, class_of_result);
  return out;
}

struct Parameter {
  std::string name;
  std::string_view property;
  std::string annotation;
  std::string_view description;
  bool required = false;
};

std::vector<Parameter> parameters_of(const json::object& schema, const json::object& root) {
  std::vector<Parameter> out;
  const auto* properties = object_in(schema, "properties");
  if (properties == nullptr) return out;
  Names taken({"CLIENT", "Result"});
  for (const auto& [property, of_property] : *properties) {
    const auto* about = of_property.if_object();
    auto annotation = plain_type(of_property, root);
    const bool required = is_required(schema, property);
    if (!required && !annotation.starts_with("Optional[") && annotation != "Any")
      annotation = fmt::format("Optional[{}]", annotation);
    out.push_back({.name = taken.take(field_name(property), "_"),
                   .property = property,
                   .annotation = std::move(annotation),
                   .description = about == nullptr ? std::string_view() : text_in(*about, "description"),
                   .required = required});
  }
  std::vector<Parameter> ordered;
  for (const bool required : {true, false}) {
    for (const auto& one : out) {
      if (one.required == required) ordered.push_back(one);
    }
  }
  return ordered;
}

std::string function_doc(const Tool& tool, const std::vector<Parameter>& parameters) {
  std::string text(cut(tool.description));
  std::string about;
  for (const auto& parameter : parameters) {
    if (!parameter.description.empty())
      about += fmt::format("    {}: {}\n", parameter.name, cut(parameter.description));
  }
  if (!about.empty()) text += fmt::format("{}Args:\n{}", text.empty() ? "" : "\n\n", about);
  return doc(text);
}

// The plain form: a function with its parameters in the signature. Nothing stands for an optional one that is None.
std::string function_source(const Tool& tool, const Module& module, bool waits) {
  const auto schema = merged(tool.input_schema, tool.input_schema);
  const auto parameters = parameters_of(schema, tool.input_schema);
  std::string signature;
  std::string required;
  std::string optional;
  for (const auto& one : parameters) {
    signature += fmt::format("{}{}: {}{}", signature.empty() ? "" : ", ", one.name, one.annotation,
                             one.required ? "" : " = None");
    auto& into = one.required ? required : optional;
    into += fmt::format("{}{}: {}", into.empty() ? "" : ", ", string_literal(one.property), one.name);
  }
  const bool typed = has_result(tool);
  const auto import = typed ? fmt::format("    from ..{} import Result\n", module.name) : std::string();
  return fmt::format("{}def {}({}) -> Any:\n{}{}    return {}CLIENT.{}({}, {{{}}}, {{{}}}{})\n", waits ? "async " : "",
                     module.name, signature, function_doc(tool, parameters), import, waits ? "await " : "",
                     waits ? "acall" : "call", string_literal(tool.name), required, optional, typed ? ", Result" : "");
}

std::string functions_source(const std::vector<Tool>& tools, const std::vector<Module>& modules, bool waits) {
  auto out = fmt::format(
      "{}from __future__ import annotations\n\nfrom typing import Any, Dict, List, Literal, Optional, Union\n\nfrom .. "
      "import CLIENT\n",
      kFirstLine);
  for (std::size_t i = 0; i < tools.size(); ++i) out += "\n\n" + function_source(tools[i], modules[i], waits);
  return out;
}

std::string init_source(const Server& server) {
  return fmt::format(
      "{}import sys\n\n"
      "if \"/cove/python/packages\" not in sys.path:\n    sys.path.append(\"/cove/python/packages\")\n\n"
      "from cove.tools import Client\n\n"
      "SERVER_PARAMS = {}\nCLIENT = Client({}, SERVER_PARAMS)\n",
      kFirstLine, repr(shown_params(server.params)), string_literal(server.name));
}

// ${NAME} and nothing else: the front knows what it stands for, and the sandbox never does.
bool only_a_variable(std::string_view text) {
  if (!text.starts_with("${") || !text.ends_with('}') || text.size() < 4) return false;
  return std::ranges::all_of(text.substr(2, text.size() - 3), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

void withhold(json::object& object) {
  for (auto& [name, value] : object) {
    if (!value.is_string() || !only_a_variable(value.get_string())) value = kWithheld;
  }
}

// Without a user, a query and a fragment, where keys are put.
std::string shown_url(std::string_view url) {
  url = url.substr(0, url.find_first_of("?#"));
  const auto begin = url.find("://");
  if (begin == std::string_view::npos) return std::string(url);
  const auto host = begin + 3;
  const auto authority = url.substr(host, url.find('/', host) - host);
  const auto at = authority.rfind('@');
  if (at == std::string_view::npos) return std::string(url);
  return std::string(url.substr(0, host)) + std::string(url.substr(host + at + 1));
}

}  // namespace

std::vector<std::string> Package::names() const {
  std::vector<std::string> out;
  for (const auto& module : modules) out.push_back(module.name);
  return out;
}

json::object shown_params(const json::object& params) {
  static constexpr auto kShown =
      std::to_array<std::string_view>({"command", "args", "cwd", "encoding", "type", "url", "timeout",
                                       "connect_timeout", "sse_read_timeout", "allow_tools", "deny_tools"});
  json::object out;
  for (const auto& [name, value] : params) {
    if (name == "url" && value.is_string()) {
      out[name] = shown_url(value.get_string());
    } else if ((name == "env" || name == "headers") && value.is_object()) {
      auto kept = value.get_object();
      withhold(kept);
      out[name] = std::move(kept);
    } else if (std::ranges::find(kShown, std::string_view(name)) != kShown.end()) {
      out[name] = value;
    } else {
      out[name] = kWithheld;
    }
  }
  return out;
}

Result<Package> generate(const Server& server, const std::vector<Tool>& tools) {
  if (tools.size() > kMaxModules)
    return fail(Errc::over_limit, fmt::format("the server has more than {} tools: allow fewer of them", kMaxModules));
  Package package;
  Names names({"functions"});
  std::size_t size = 0;
  const auto add = [&](std::string path, std::string text) -> Result<> {
    size += text.size();
    if (size > kMaxPackage)
      return fail(Errc::over_limit,
                  fmt::format("the modules of the server would be larger than {} MiB: allow fewer of its tools",
                              kMaxPackage >> 20));
    package.files.push_back({.path = std::move(path), .text = std::move(text)});
    return {};
  };
  COVE_CHECK(add("__init__.py", init_source(server)));
  for (const auto& tool : tools) {
    const auto name = names.take(tool_name(tool.name), "_");
    auto source = module_source(tool, name);
    if (!source)
      return fail(source.error().code, fmt::format("tool {}: {}", string_literal(tool.name), source.error().message));
    package.modules.push_back({.name = name, .tool = tool.name, .source = *source});
    COVE_CHECK(add(name + ".py", std::move(*source)));
  }
  COVE_CHECK(add("functions/__init__.py", functions_source(tools, package.modules, false)));
  COVE_CHECK(add("functions/aio.py", functions_source(tools, package.modules, true)));
  return package;
}

}  // namespace cove::tools::codegen
