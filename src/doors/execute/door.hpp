#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "async/task.hpp"
#include "config/config.hpp"
#include "doors/execute/meter.hpp"
#include "http/exchange.hpp"
#include "http/router.hpp"
#include "sandbox/admission.hpp"
#include "sandbox/registry.hpp"
#include "sandbox/transfer.hpp"
#include "store/file_store.hpp"
#include "store/key_table.hpp"

namespace cove::doors::execute {

using async::Task;

// Of every sandbox this door makes.
jail::Limits limits_of(const config::Config& config);

// What the door works with. Borrowed for the server's life.
struct Services {
  sandbox::Registry& registry;
  sandbox::Admission& slots;      // this door's own
  sandbox::Admission& admission;  // every door's: what a key allows, and what a server that stops waits for
  store::FileStore& files;
  Meter& meter;
  std::function<store::KeyQuotas(const http::Principal&)> quotas;
  std::function<std::shared_ptr<const config::Config>()> config;  // of now: a reload changes it
  std::function<bool()> draining;
  std::function<bool(const http::Principal&)> still_valid;
  std::function<void(std::string_view)> log;
  int transfers = 0;  // uploads and downloads going on now
};

// The code interpreter's API: `/health`, `/ready`, `/v1/execute…`, `/v1/files…`, `/v1/sessions…` (docs/api.md). Null:
// for the table alone, nothing may be called.
void add_routes(http::Router& router, Services* services);

// Removes files whose time is over, until cancelled.
Task<> expire_files(Services& services);

// In the other files of this door.
void add_execute_routes(http::Router& router, Services* services);
void add_file_routes(http::Router& router, Services* services);
void add_session_routes(http::Router& router, Services* services);
void add_health_routes(http::Router& router, Services* services);

}  // namespace cove::doors::execute
