#pragma once

#include <boost/json.hpp>
#include <functional>
#include <string>
#include <vector>

#include "doors/mcp/tool.hpp"

namespace cove::doors::mcp {

// A prompt template, as clients offer it to people.
struct Prompt {
  boost::json::object definition;  // name, title, description, arguments
  // Given the arguments, all of them text, none that is required missing.
  std::function<Task<cove::mcp::Or<>>(cove::mcp::Call&, boost::json::object arguments)> get;
  // Values for an argument, given the others; the caller keeps those that match what is typed.
  std::function<Task<std::vector<std::string>>(cove::mcp::Call&, std::string argument, boost::json::object others)>
      suggest;

  [[nodiscard]] std::string_view name() const { return definition.at("name").as_string(); }
};

std::vector<Prompt> all_prompts(ToolContext& context);

}  // namespace cove::doors::mcp
