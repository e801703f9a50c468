#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <optional>
#include <string>

#include "config/config.hpp"
#include "doors/sandboxes/door.hpp"
#include "store/template_table.hpp"

namespace cove::doors::sandboxes {

// The limits that a request asks for, for a sandbox or for a template. 0: not given. Errc::invalid names the field.
Result<store::TemplateDefaults> requested_limits(const boost::json::object& body, const config::SandboxLimits& limits);
// `ttlSeconds`; nothing when it was not given.
Result<std::optional<std::chrono::milliseconds>> requested_ttl(const boost::json::object& body,
                                                               const config::SandboxLimits& limits);
// Adds `env` to the given variables; `env` wins.
Result<std::string> requested_environment(const boost::json::object& body, const std::string& under_json);

// The limits of an execution in this sandbox, whose template may set a time limit.
config::ExecLimits exec_limits_in(const sandbox::Sandbox& sandbox, const Services& services);

}  // namespace cove::doors::sandboxes
