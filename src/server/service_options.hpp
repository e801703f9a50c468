#pragma once

#include <optional>
#include <string>

#include "config/config.hpp"
#include "egress/policy.hpp"
#include "http/server.hpp"
#include "jobs/callbacks.hpp"
#include "jobs/execution_history.hpp"
#include "oauth/token.hpp"
#include "outbound/client.hpp"
#include "packages/installs.hpp"
#include "sandbox/admission.hpp"
#include "sandbox/pool.hpp"
#include "sandbox/registry.hpp"
#include "store/file_store.hpp"
#include "store/store.hpp"
#include "tools/broker.hpp"

namespace cove::server {

// The options of each service, from the configuration. Computed again at a reload.

http::ServerOptions http_options(const config::Config& config);
// `registry` is borrowed: it counts what runs in the background.
sandbox::Admission::Options admission_options(const config::Config& config, const sandbox::Registry& registry);
// The slots of the execute door alone.
sandbox::Admission::Options slot_options(const config::Config& config);
sandbox::Pool::Options pool_options(const config::Config& config);
jobs::Callbacks::Options callback_options(const config::Config& config);
// The policy of sandboxes for which nothing was asked. Errc::invalid names the key that is wrong.
Result<egress::Policy> usual_policy(const config::Config& config);
jobs::ExecutionHistory::Limits history_limits(const config::Config& config);
packages::Installs::Options install_options(const config::Config& config);
// What only the services themselves can judge. Errc::invalid names the key or table that is wrong.
Result<> check_services(const config::Config& config);
tools::BrokerSettings tool_settings(const config::Config& config);
outbound::Options outbound_options(const config::Config& config);

// Whether kept files and the database fill the same disk: then files leave some of it free.
enum class FilesDisk { own, with_database };
FilesDisk disk_of_files(int files_fd, const std::string& database_directory);
store::FileStore::Options file_options(const config::Config& config, FilesDisk disk);

// How tokens of an authorization server are checked; nothing when `key_set` (a JWK set) is empty or broken.
std::optional<oauth::TokenCheck> token_check(const config::Config& config, const std::string& key_set);
// The template every host has: its own root, and the languages installed on it.
store::TemplateRow host_template();
// Applies the bounds on what the store and the kernels keep of each tenant and of all.
void set_bounds(const config::Config& config, store::Store& store, sandbox::Registry& registry);

}  // namespace cove::server
