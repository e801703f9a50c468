#pragma once

#include <boost/asio/io_context.hpp>
#include <exception>
#include <memory>
#include <string>

#include "async/gate.hpp"
#include "async/task_group.hpp"
#include "config/live.hpp"
#include "doors/execute/door.hpp"
#include "doors/jupyter/door.hpp"
#include "doors/mcp/service.hpp"
#include "doors/operator/door.hpp"
#include "doors/resources/door.hpp"
#include "doors/sandboxes/door.hpp"
#include "doors/workspace/door.hpp"
#include "http/server.hpp"
#include "listeners/listeners.hpp"
#include "mcp/http/endpoint.hpp"
#include "network/networks.hpp"
#include "outbound/client.hpp"
#include "sandbox/core.hpp"
#include "server/front.hpp"
#include "server/key_ring.hpp"
#include "server/log.hpp"
#include "server/metrics.hpp"
#include "server/request_log.hpp"
#include "server/service_options.hpp"
#include "server/supervisor_link.hpp"
#include "tools/broker.hpp"
#include "tools/kernel_calls.hpp"

namespace cove::server {

// Everything the front is made of. Members are built from top to bottom, each from those above it, and live as long as
// the front; references among them are borrowed.
struct Services {
  Services(FrontOptions options, std::unique_ptr<store::Store> opened_store, UniqueFd run_directory);
  Services(const Services&) = delete;
  Services& operator=(const Services&) = delete;

  FrontOptions options;
  config::Live config;
  Log log;
  std::unique_ptr<store::Store> store;
  UniqueFd run_dir;
  boost::asio::io_context loop{1};
  async::TaskGroup tasks;
  async::Gate gate;
  SupervisorLink supervisor;
  KeyRing keys;
  Metrics metrics;
  RequestLog request_log;
  sandbox::Admission admission;
  sandbox::Admission slots;   // of the execute door
  outbound::Client outbound;  // the server's own requests, for every door
  sandbox::Registry registry;
  network::Networks networks;
  jobs::Callbacks callbacks;
  jobs::Jobs jobs;
  packages::Installs installs;
  FilesDisk files_disk;
  store::Spool spool;  // long output; in the directory of the files
  store::FileStore files;
  doors::execute::Meter meter;
  listeners::Listeners listeners;
  sandbox::Core core;
  tools::Broker tools;
  tools::PeerCalls tool_calls;
  tools::Lines tool_lines;
  tools::KernelCalls kernel_calls;
  doors::sandboxes::Services sandboxes_door;
  doors::execute::Services execute_door;
  doors::workspace::Services workspace_door;
  doors::jupyter::Services jupyter_door;
  doors::resources::Services resources_door;
  doors::mcp::Services mcp_door;
  doors::mcp::CodeService mcp_service;
  mcp_http::Endpoint mcp_endpoint;
  doors::operators::Services operator_door;
  http::Router router;
  http::Server server;
};

// The message of an exception, for the log.
std::string message_of(std::exception_ptr exception);

}  // namespace cove::server
