#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "config/config.hpp"
#include "http/exchange.hpp"
#include "http/router.hpp"
#include "sandbox/admission.hpp"
#include "sandbox/installs.hpp"
#include "sandbox/jobs.hpp"
#include "sandbox/registry.hpp"
#include "sandbox/transfer.hpp"
#include "store/key_table.hpp"

namespace cove::doors::sandboxes {

using async::Task;

// What the door works with. Borrowed for the server's life.
struct Services {
  sandbox::Registry& registry;
  sandbox::Admission& admission;
  sandbox::Jobs& jobs;
  sandbox::Callbacks& callbacks;
  sandbox::Installs& installs;
  std::function<store::KeyQuotas(const http::Principal&)> quotas;
  std::function<std::shared_ptr<const config::Config>()> config;  // of now: a reload changes it
  std::function<bool()> draining;
  std::function<bool(const http::Principal&)> operates;     // may do what concerns every tenant
  std::function<bool(const http::Principal&)> still_valid;  // for streams: a key may be revoked while they last
  std::map<std::pair<std::string, std::string>, std::string> creating =
      {};             // tenant, Idempotency-Key: hash of the body
  int transfers = 0;  // file work going on now, for which a server that stops waits
};

// `/v1/sandboxes…` and `/v1/events`: the NoxRunner v1 API and ours around it (docs/api.md). Null: for the table alone,
// nothing may be called.
void add_routes(http::Router& router, Services* services);

// In the other files of this door.
void add_lifecycle_routes(http::Router& router, Services* services);
void add_exec_routes(http::Router& router, Services* services);
void add_process_routes(http::Router& router, Services* services);
void add_kernel_routes(http::Router& router, Services* services);
void add_execution_routes(http::Router& router, Services* services);
void add_dependency_routes(http::Router& router, Services* services);
void add_file_routes(http::Router& router, Services* services);
void add_event_routes(http::Router& router, Services* services);
void add_template_routes(http::Router& router, Services* services);

}  // namespace cove::doors::sandboxes
