#pragma once

#include <boost/json.hpp>
#include <string>

#include "config/config.hpp"
#include "doors/sandboxes/door.hpp"
#include "store/template_table.hpp"

namespace cove::doors::sandboxes {

// What a request wants of a sandbox, or of those that will be made of a template. 0 where nothing is said.
// Errc::invalid names the field.
Result<store::TemplateDefaults> wished_limits(const boost::json::object& body, const config::SandboxLimits& limits);
// `env` over the variables that are there already.
Result<std::string> wished_environment(const boost::json::object& body, const std::string& under_json);

// What an execution gets in this sandbox: its template may have a time limit of its own.
config::ExecLimits exec_limits_in(const sandbox::Sandbox& sandbox, const Services& services);

}  // namespace cove::doors::sandboxes
