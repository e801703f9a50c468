#include "mcp/form.hpp"

#include <fmt/format.h>

#include <string>

namespace cove::mcp {
namespace {

namespace json = boost::json;

// Blocks

json::object as_text(const json::object& link) {
  const auto text = [&link](std::string_view name) {
    const auto* value = link.if_contains(name);
    return value != nullptr && value->is_string() ? std::string(value->as_string()) : std::string();
  };
  return {{"type", "text"}, {"text", fmt::format("File: {} ({})", text("name"), text("uri"))}};
}

json::object as_resource(const json::object& audio) {
  return {{"type", "resource"},
          {"resource", {{"uri", "data:audio"}, {"mimeType", audio.at("mimeType")}, {"blob", audio.at("data")}}}};
}

void fit_block(json::value& value, Revision revision) {
  auto& block = value.as_object();
  const auto type = std::string(block.at("type").as_string());
  if (type == "resource_link" && !has_structure(revision))
    block = as_text(block);
  else if (type == "audio" && !has_annotations(revision))
    block = as_resource(block);
}

void fit_call(json::object& result, Revision revision) {
  if (!has_structure(revision)) result.erase("structuredContent");
  if (auto* content = result.if_contains("content")) {
    for (auto& block : content->as_array()) fit_block(block, revision);
  }
}

void fit_prompt(json::object& result, Revision revision) {
  if (auto* messages = result.if_contains("messages")) {
    for (auto& message : messages->as_array()) fit_block(message.as_object().at("content"), revision);
  }
}

// Lists

void fit_entries(json::object& result, std::string_view list, Revision revision) {
  auto* entries = result.if_contains(list);
  if (entries == nullptr) return;
  for (auto& entry : entries->as_array()) {
    auto& object = entry.as_object();
    if (!has_structure(revision)) object.erase("title");
    if (revision < Revision::v2025_11_25) object.erase("icons");
  }
}

void fit_tools(json::object& result, Revision revision, bool bare) {
  fit_entries(result, "tools", revision);
  for (auto& entry : result.at("tools").as_array()) {
    auto& tool = entry.as_object();
    if (!has_structure(revision)) tool.erase("outputSchema");
    if (!has_annotations(revision) && !bare) tool.erase("annotations");
    if (revision != Revision::v2025_11_25) tool.erase("execution");
  }
}

void add_caching(json::object& result, std::string_view method) {
  const bool fixed = method == "tools/list" || method == "prompts/list" || method == "server/discover" ||
                     method == "resources/templates/list";
  const bool changing = method == "resources/list" || method == "resources/read";
  if (!fixed && !changing) return;
  result["ttlMs"] = fixed ? 300'000 : 0;
  result["cacheScope"] = fixed ? "public" : "private";
}

}  // namespace

json::object fit(json::object result, std::string_view method, Revision revision, bool bare) {
  if (method == "tools/call") fit_call(result, revision);
  if (method == "prompts/get") fit_prompt(result, revision);
  if (method == "tools/list") fit_tools(result, revision, bare);
  if (method == "prompts/list") fit_entries(result, "prompts", revision);
  if (method == "resources/list") fit_entries(result, "resources", revision);
  if (method == "resources/templates/list") fit_entries(result, "resourceTemplates", revision);
  if (modern(revision) && !result.contains("resultType")) add_caching(result, method);
  return result;
}

}  // namespace cove::mcp
