#pragma once

#include <boost/json.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "fastapi/checker.hpp"
#include "tools/broker.hpp"

namespace cove::doors::resources {

struct ServerPath {
  std::string directory;  // "" the sandbox's own
  std::string server;
};
// Of "mcpgen/weather". Errc::invalid for one that cannot be imported.
Result<ServerPath> split_server_path(std::string_view path);

// A body that must be an object.
std::variant<boost::json::object, fastapi::Problems> parse_server_params(std::string_view body);

// A server as ipybox's clients name it: a stdio server runs inside of the sandbox, beside its files, unless `place`
// says otherwise.
Result<tools::Definition> definition_of(std::string name, boost::json::object params);
// The name that a server gets in the sandbox: its own, or with a number if that is of a package in another directory.
std::string free_name(const std::vector<tools::ServerView>& there, const tools::Definition& definition);

// What a tool server of ipybox answers: {"result": …} or {"error": …, "type"?: …}.
boost::json::object run_answer(const tools::Outcome& outcome);
boost::json::object run_failure(const tools::Failure& failure);

}  // namespace cove::doors::resources
