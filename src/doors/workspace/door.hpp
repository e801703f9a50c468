#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "config/config.hpp"
#include "http/exchange.hpp"
#include "http/router.hpp"
#include "outbound/client.hpp"
#include "sandbox/admission.hpp"
#include "sandbox/registry.hpp"
#include "sandbox/transfer.hpp"
#include "store/key_table.hpp"

namespace cove::doors::workspace {

using async::Task;

// Of every sandbox a handler is called in.
jail::Limits handler_limits(const config::Config& config);

// What the door works with. Borrowed for the server's life.
struct Services {
  sandbox::Registry& registry;
  sandbox::Admission& admission;
  std::function<store::KeyQuotas(const http::Principal&)> quotas;
  std::function<std::shared_ptr<const config::Config>()> config;  // of now: a reload changes it
  std::function<bool()> draining;
  outbound::Client& outbound;
  int transfers = 0;  // file work going on now, for which a server that stops waits
};

// `/workspace/se…` (docs/api.md). Null: for the table alone, nothing may be called.
void add_routes(http::Router& router, Services* services);

// In the other files of this door.
void add_session_routes(http::Router& router, Services* services);
void add_file_routes(http::Router& router, Services* services);
void add_execute_routes(http::Router& router, Services* services);
void add_efast_routes(http::Router& router, Services* services);
void add_handler_routes(http::Router& router, Services* services);

}  // namespace cove::doors::workspace
