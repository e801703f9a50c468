#include <stdlib.h>
#include <unistd.h>

#include "mcp/client/host_pipes.hpp"
#include "mcp/host/minder.hpp"
#include "mcp_client.hpp"

namespace cove::test {
namespace {

using async::Task;
using namespace mcp::client;

Task<Result<std::unique_ptr<Pipes>>> launch(boost::asio::any_io_executor executor, ServerConfig config) {
  mcp::host::Command command;
  command.argv.push_back(config.command);
  command.argv.insert(command.argv.end(), config.args.begin(), config.args.end());
  for (const auto* name : {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"}) {
    if (const auto* value = ::getenv(name); value != nullptr && !config.env.contains(name))
      command.environment.push_back(std::string(name) + "=" + value);
  }
  for (const auto& [name, value] : config.env) command.environment.push_back(name + "=" + value);
  if (!config.cwd.empty()) command.directory = config.cwd;
  auto minded = mcp::host::start(command, [] { return true; });
  if (!minded) co_return tl::unexpected<Error>(minded.error());
  HostEnds ends{.input = std::move(minded->input),
                .output = std::move(minded->output),
                .errors = std::move(minded->errors),
                .control = std::move(minded->control)};
  co_return make_host_pipes(executor, std::move(ends));
}

}  // namespace

Place::Place(boost::asio::io_context& own) : loop(own) {
  outbound::Options options;
  options.user_agent = "cove-mcp-client";
  http_ = std::make_unique<outbound::Client>(loop.get_executor(), options);
}

Place::~Place() = default;

Environment Place::environment() const {
  Environment out{.executor = loop.get_executor(), .http = http_.get()};
  // "127.0.0.1:8000,localhost:8000"
  const auto* reach = ::getenv("COVE_TEST_REACH");
  std::string_view rest = reach == nullptr ? "" : reach;
  while (!rest.empty()) {
    const auto end = rest.find(',');
    if (auto one = outbound::parse_host_port(rest.substr(0, end))) out.reach.allowed.push_back(std::move(*one));
    if (end == rest.npos) break;
    rest.remove_prefix(end + 1);
  }
  out.launch = [executor = loop.get_executor()](ServerConfig config) { return launch(executor, std::move(config)); };
  out.eras = make_era_memory();
  out.name = "cove-mcp-client";
  out.version = "1";
  const auto number = [](const char* name, std::uint64_t usual) {
    const auto* text = ::getenv(name);
    return text == nullptr ? usual : std::strtoull(text, nullptr, 10);
  };
  out.limits.message_bytes = number("COVE_TEST_MESSAGE_BYTES", out.limits.message_bytes);
  out.limits.result_bytes = number("COVE_TEST_RESULT_BYTES", out.limits.result_bytes);
  out.limits.list_bytes = number("COVE_TEST_LIST_BYTES", out.limits.list_bytes);
  out.limits.outstanding_calls = number("COVE_TEST_OUTSTANDING", out.limits.outstanding_calls);
  return out;
}

}  // namespace cove::test
