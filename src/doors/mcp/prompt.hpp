#pragma once

#include <boost/json.hpp>
#include <functional>
#include <string>
#include <vector>

#include "doors/mcp/tool.hpp"

namespace cove::doors::mcp {

// A prompt template that clients offer to their users.
struct Prompt {
  boost::json::object definition;  // name, title, description, arguments
  // The arguments have been checked: all are strings, no required one is missing.
  std::function<Task<cove::mcp::Or<>>(cove::mcp::Call&, boost::json::object arguments)> get;
  // Values for an argument, given the others. The caller filters them by what was typed.
  std::function<Task<std::vector<std::string>>(cove::mcp::Call&, std::string argument, boost::json::object others)>
      suggest;

  [[nodiscard]] std::string_view name() const { return definition.at("name").as_string(); }
};

std::vector<Prompt> all_prompts(ToolContext& context);

}  // namespace cove::doors::mcp
