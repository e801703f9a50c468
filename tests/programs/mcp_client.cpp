// The MCP client as a program, for tests: `cove-mcp-client CONFIG` speaks with the server that the JSON describes, and
// does what the lines of its standard input say, all at once; each answer is a line with the `id` of its order.
//
//   {"id":1,"do":"tools"}   {"id":2,"do":"call","name":"add","arguments":{},"timeout_ms":1000,"progress":true}
//   {"id":3,"do":"request","method":"resources/list","params":{}}   {"do":"info"}   {"do":"close"}
//
// `cove-mcp-client URL` runs the scenario that MCP_CONFORMANCE_SCENARIO names (mcp_scenarios.cpp).
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdlib>
#include <iostream>

#include "async/task_group.hpp"
#include "mcp_client.hpp"

namespace cove::test {
namespace {

namespace asio = boost::asio;
namespace json = boost::json;
using async::Task;
using namespace mcp::client;

void say(const json::object& line) {
  std::cout << json::serialize(line) << std::endl;
}

json::object error_of(const Error& error) {
  static constexpr std::array kNames{"invalid",  "not_found", "denied",      "exists",      "over_limit",
                                     "conflict", "quota",     "unsupported", "unavailable", "io"};
  return {{"code", kNames.at(static_cast<std::size_t>(error.code))},
          {"message", error.message},
          {"errno", error.sys_errno},
          {"retry_after_ms", error.retry_after.count()}};
}

json::object fault_of(const mcp::Fault& fault) {
  return {{"code", static_cast<int>(fault.code)}, {"message", fault.message}, {"data", fault.data}};
}

json::object counters_of(const Counters& counters) {
  return {{"calls", counters.calls},
          {"late_answers", counters.late_answers},
          {"unusable_messages", counters.unusable_messages},
          {"dropped_notifications", counters.dropped_notifications},
          {"refused_requests", counters.refused_requests},
          {"restarts", counters.restarts},
          {"resumed_streams", counters.resumed_streams}};
}

Task<json::object> do_tools(Client& client) {
  const auto tools = co_await client.tools();
  if (!tools) co_return json::object{{"error", error_of(tools.error())}};
  json::array list;
  for (const auto& tool : *tools) {
    json::object one{{"name", tool.name},
                     {"title", tool.title},
                     {"description", tool.description},
                     {"inputSchema", tool.input_schema},
                     {"annotations", tool.annotations}};
    if (tool.output_schema) one["outputSchema"] = *tool.output_schema;
    list.push_back(std::move(one));
  }
  co_return json::object{{"tools", std::move(list)}};
}

CallOptions options_of(const json::object& order) {
  CallOptions options;
  if (const auto* time = order.if_contains("timeout_ms")) options.timeout = std::chrono::milliseconds(time->as_int64());
  if (const auto* most = order.if_contains("most_ms")) options.most = std::chrono::milliseconds(most->as_int64());
  if (order.contains("progress")) {
    options.on_progress = [id = order.contains("id") ? order.at("id") : json::value()](const Progress& step) {
      say({{"id", id}, {"progress", step.progress}, {"message", step.message}});
    };
  }
  if (const auto* until = order.if_contains("abandon_ms")) {
    const auto time = std::chrono::steady_clock::now() + std::chrono::milliseconds(until->as_int64());
    options.abandoned = [time] { return std::chrono::steady_clock::now() >= time; };
  }
  return options;
}

Task<json::object> do_call(Client& client, json::object order) {
  auto arguments = order.contains("arguments") ? order.at("arguments").as_object() : json::object();
  auto options = options_of(order);
  auto result =
      co_await client.call(std::string(order.at("name").as_string()), std::move(arguments), std::move(options));
  if (!result) co_return json::object{{"error", error_of(result.error())}};
  if (result->fault) co_return json::object{{"fault", fault_of(*result->fault)}};
  json::object out{{"content", std::move(result->content)}, {"isError", result->is_error}};
  if (result->structured) out["structured"] = std::move(*result->structured);
  co_return out;
}

Task<json::object> do_request(Client& client, json::object order) {
  auto params = order.contains("params") ? order.at("params").as_object() : json::object();
  auto options = options_of(order);
  auto result =
      co_await client.request(std::string(order.at("method").as_string()), std::move(params), std::move(options));
  if (!result) co_return json::object{{"error", error_of(result.error())}};
  if (!*result) co_return json::object{{"fault", fault_of(result->error())}};
  co_return json::object{{"result", std::move(**result)}};
}

json::object do_info(const Client& client) {
  return {{"revision", mcp::name_of(client.revision())}, {"server", client.server_info()},
          {"instructions", client.instructions()},       {"capabilities", client.capabilities()},
          {"counters", counters_of(client.counters())},  {"outstanding", client.outstanding()}};
}

Task<> do_one(std::shared_ptr<Client> client, json::object order) {
  const auto what = order.at("do").as_string();
  json::object answer;
  if (what == "tools")
    answer = co_await do_tools(*client);
  else if (what == "call")
    answer = co_await do_call(*client, order);
  else if (what == "request")
    answer = co_await do_request(*client, order);
  else
    answer = do_info(*client);
  if (const auto* id = order.if_contains("id")) answer["id"] = *id;
  say(answer);
}

// Reads orders until "close" or the end of input.
Task<> obey(std::shared_ptr<Client> client, async::TaskGroup& group) {
  asio::posix::stream_descriptor input(co_await asio::this_coro::executor, ::dup(0));
  std::string text;
  std::string piece(65536, '\0');
  while (true) {
    const auto [failed, size] =
        co_await input.async_read_some(asio::buffer(piece), asio::as_tuple(asio::use_awaitable));
    if (failed) break;
    text.append(piece, 0, size);
    for (std::size_t end = 0; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1)) {
      auto order = json::parse(text.substr(0, end)).as_object();
      if (order.at("do").as_string() == "close") co_return;
      group.spawn("order", do_one(client, std::move(order)));
    }
  }
  co_await group.join();
}

Task<> serve_orders(const Place& place, ServerConfig config, int& status) {
  async::TaskGroup group(place.loop.get_executor(), [](std::string_view, const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& why) {
      say({{"escaped", why.what()}});
    }
  });
  auto environment = place.environment();
  environment.log = [](std::string_view sentence) { say({{"log", sentence}}); };
  environment.on_tools_changed = [] { say({{"changed", "tools"}}); };
  auto client = co_await Client::connect(std::move(environment), std::move(config));
  if (!client) {
    say({{"connected", false}, {"error", error_of(client.error())}});
    status = 1;
    co_return;
  }
  const std::shared_ptr<Client> shared(std::move(*client));
  auto info = do_info(*shared);
  info["connected"] = true;
  say(info);
  co_await obey(shared, group);
  co_await shared->close();
  co_await group.join();
  say({{"closed", true}, {"counters", counters_of(shared->counters())}});
}

int run(const std::string& what) {
  asio::io_context loop(1);
  Place place(loop);
  int status = 0;
  const auto failed = [&status](const std::exception_ptr& error) {
    if (!error) return;
    status = 2;
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& why) {
      std::cerr << "cove-mcp-client: " << why.what() << '\n';
    }
  };
  const auto* scenario = std::getenv("MCP_CONFORMANCE_SCENARIO");
  if (scenario != nullptr) {
    asio::co_spawn(loop, run_scenario(place, scenario, what, status), failed);
  } else {
    boost::system::error_code wrong;
    const auto value = json::parse(what, wrong);
    if (wrong || !value.is_object()) {
      std::cerr << "cove-mcp-client: give the configuration of a server as a JSON object\n";
      return 2;
    }
    auto config = read_config(value.as_object());
    if (config)
      config = substitute(std::move(*config), [](const std::string& name) -> std::optional<std::string> {
        const auto* found = std::getenv(name.c_str());
        return found == nullptr ? std::nullopt : std::optional<std::string>(found);
      });
    if (!config) {
      say({{"connected", false}, {"error", error_of(config.error())}});
      return 1;
    }
    asio::co_spawn(loop, serve_orders(place, std::move(*config), status), failed);
  }
  loop.run();
  return status;
}

}  // namespace
}  // namespace cove::test

int main(int count, char** words) {
  ::signal(SIGPIPE, SIG_IGN);
  if (count != 2) {
    std::cerr << "usage: cove-mcp-client CONFIG\n";
    return 2;
  }
  return cove::test::run(words[1]);
}
