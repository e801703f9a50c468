#include "cli/client/up_commands.hpp"

#include <memory>

#include "base/units.hpp"
#include "cli/client/binds.hpp"
#include "cli/client/client_options.hpp"
#include "cli/client/limit_options.hpp"
#include "cli/client/network_options.hpp"
#include "cli/console.hpp"

namespace cove::cli {
namespace {

namespace json = boost::json;
using client::sandbox_target;

constexpr const char* kRoot = "/app";

struct UpArguments : ClientOptions {
  std::string kind, name, ttl = "24h", from;
  std::uint32_t executor_port = 0, resource_port = 0;
  LimitOptions limits;
  NetworkOptions network;
  Words environment, binds;
};

struct DownArguments : ClientOptions {
  std::string name;
};

Result<json::object> body_of(const UpArguments& arguments) {
  json::object body{{"workdir", kRoot}, {"labels", {{"kind", arguments.kind}}}};
  if (!arguments.name.empty()) body["id"] = arguments.name;
  if (!arguments.from.empty()) body["template"] = arguments.from;
  const auto ttl = parse_duration(arguments.ttl);
  if (!ttl) return fail(Errc::invalid, fmt::format("--ttl: {}", ttl.error().message));
  body["ttlSeconds"] = std::chrono::ceil<std::chrono::seconds>(*ttl).count();
  COVE_CHECK(set_limits(body, arguments.limits));
  if (arguments.network.given()) {
    COVE_TRY(body["network"], policy_of(arguments.network));
  }
  COVE_TRY(auto environment, pairs("--env", arguments.environment));
  // Modules beside the program are found from every directory.
  if (!environment.contains("PYTHONPATH")) environment["PYTHONPATH"] = kRoot;
  body["env"] = std::move(environment);
  return body;
}

Result<std::int64_t> open_port(client::Client& client, const std::string& id, std::uint32_t port, const char* option) {
  const json::object body{{"listen", fmt::format("127.0.0.1:{}", port)}, {"sandbox", id}};
  const auto answer = client.ask(json_request("POST", "/v1/listeners", body));
  if (!answer) return fail(answer.error().code, fmt::format("{}: {}", option, answer.error().message));
  COVE_TRY(const auto listener, object_of(answer->body));
  return number_of(listener, "port");
}

struct Started {
  std::string id;
  std::int64_t executor_port = 0;
  std::int64_t resource_port = 0;
  std::vector<Bind> binds;
};

// The rest of a start, once the sandbox is there.
Result<> furnish(client::Client& client, const UpArguments& arguments, const json::object& sandbox, Started& started) {
  if (!started.binds.empty()) {
    COVE_CHECK(remember({.url = client.options().address.url(),
                         .id = started.id,
                         .pod = text_of(sandbox, "podName"),
                         .binds = started.binds}));
  }
  for (const auto& bind : started.binds) COVE_CHECK(copy_in(client, started.id, bind));
  COVE_TRY(started.executor_port, open_port(client, started.id, arguments.executor_port, "--executor-port"));
  COVE_TRY(started.resource_port, open_port(client, started.id, arguments.resource_port, "--resource-port"));
  return {};
}

Result<> show(const UpArguments& arguments, const Started& started, const client::Address& address) {
  if (arguments.json) {
    json::array binds;
    for (const auto& bind : started.binds) binds.push_back({{"host", bind.host}, {"inside", bind.inside}});
    return put_line(json::serialize(json::object{{"id", started.id},
                                                 {"executorPort", started.executor_port},
                                                 {"resourcePort", started.resource_port},
                                                 {"workdir", kRoot},
                                                 {"binds", std::move(binds)}}));
  }
  const auto id = printable(started.id);
  const auto host = arguments.key.empty() ? "" : fmt::format(", host=\"{}:KEY@127.0.0.1\"", id);
  std::string text =
      fmt::format("{} works in {}\nexecutor  ExecutionClient(port={}{})\nresources ResourceClient(port={}{})\n", id,
                  kRoot, started.executor_port, host, started.resource_port, host);
  if (!arguments.key.empty()) text += "KEY is the server's key, which its ports ask for too\n";
  if (address.host != "127.0.0.1" && address.host != "localhost" && address.host != "::1")
    text += fmt::format("Both ports are on the loopback address of {}\n", printable(address.host));
  for (const auto& bind : started.binds)
    text += fmt::format("{} was copied to {}; cove down copies changed files back\n", printable(bind.host),
                        printable(bind.inside));
  text += fmt::format("To end it: cove down {}", id);
  return put_line(text);
}

Result<> up(const UpArguments& arguments) {
  if (arguments.kind != "ipybox")
    return fail(Errc::invalid, fmt::format("there is no kind '{}': it must be ipybox", arguments.kind));
  Started started;
  for (const auto& text : arguments.binds) {
    COVE_TRY(auto bind, parse_bind(text, kRoot));
    started.binds.push_back(std::move(bind));
  }
  COVE_TRY(const auto body, body_of(arguments));
  COVE_TRY(auto client, connect(arguments));
  COVE_TRY(const auto answer, client.ask(json_request("POST", "/v1/sandboxes", body)));
  COVE_TRY(const auto sandbox, object_of(answer.body));
  started.id = text_of(sandbox, "id");
  if (const auto done = furnish(client, arguments, sandbox, started); !done) {
    // Nothing stays of one that cannot be used.
    [[maybe_unused]] const auto removed =
        client.send({.method = "DELETE", .target = sandbox_target(started.id).text()});
    if (!started.binds.empty()) forget(client.options().address.url(), started.id);
    return done;
  }
  return show(arguments, started, client.options().address);
}

Result<> down(const DownArguments& arguments) {
  COVE_TRY(auto client, connect(arguments));
  const auto url = client.options().address.url();
  COVE_TRY(const auto answer, client.ask({.target = sandbox_target(arguments.name).text()}));
  COVE_TRY(const auto sandbox, object_of(answer.body));
  COVE_TRY(const auto record, remembered(url, arguments.name));
  json::array copied;
  // What is remembered of another sandbox of that id is none of its business.
  if (record.pod == text_of(sandbox, "podName")) {
    for (const auto& bind : record.binds) {
      const auto count = copy_back(client, arguments.name, bind);
      if (!count)
        return fail(count.error().code,
                    fmt::format("{} was not copied back to {}, so {} still runs: {} (cove rm ends it "
                                "all the same)",
                                bind.inside, bind.host, arguments.name, count.error().message));
      copied.push_back({{"host", bind.host}, {"files", *count}});
      if (!arguments.json)
        COVE_CHECK(put_line(fmt::format("{} changed files copied back to {}", *count, printable(bind.host))));
    }
  }
  COVE_CHECK(client.ask({.method = "DELETE", .target = sandbox_target(arguments.name).text()}));
  if (!record.binds.empty()) forget(url, arguments.name);
  if (arguments.json)
    return put_line(
        json::serialize(json::object{{"id", arguments.name}, {"deleted", true}, {"copiedBack", std::move(copied)}}));
  return put_line(printable(arguments.name));
}

}  // namespace

void add_up_commands(App& app, Commands& commands) {
  {
    auto* command = app.add_subcommand("up", "Start a sandbox for clients of ipybox, with two ports of its own");
    const auto a = std::make_shared<UpArguments>();
    command->add_option("kind", a->kind, "ipybox")->required();
    command->add_option("--name", a->name, "Id of the sandbox (default: chosen by the server)");
    command->add_option("--executor-port", a->executor_port, "Port for ExecutionClient (default: any free one)")
        ->between(0, 65535);
    command->add_option("--resource-port", a->resource_port, "Port for ResourceClient (default: any free one)")
        ->between(0, 65535);
    again(command->add_option("-e,--env", a->environment, "Environment variable NAME=VALUE; repeatable"));
    again(command->add_option(
        "--bind", a->binds,
        "HOST:PATH: copies the directory HOST, created if missing, to PATH below /app; repeatable"));
    command->add_option("--ttl", a->ttl, "Time to live while unused")->capture_default_str();
    command->add_option("--template", a->from, "Template to start from (see cove template list)");
    describe(*command, a->limits);
    describe(*command, a->network);
    command->footer(
        "The sandbox works in /app. A bind is a copy: what changed in it is copied back by cove down, files that were\n"
        "deleted are not deleted here, and cove rm copies nothing. The ports are on the server's 127.0.0.1.\n"
        "What init_firewall would allow is listed by --allow, and changed later by cove network.\n"
        "Examples:\n  cove up ipybox --name demo\n  cove up ipybox --name demo --executor-port 8888 --resource-port "
        "8900 "
        "--bind ./data:data");
    describe(*command, *a, "ipybox");
    commands.push_back({command, [a](const AfterDashes&) { return told(*a, up(*a)); }});
  }
  {
    auto* command = app.add_subcommand("down", "End a sandbox of cove up, and copy changed files of its binds back");
    const auto a = std::make_shared<DownArguments>();
    command->add_option("name", a->name, "Sandbox id")->required();
    command->footer("Example:\n  cove down demo");
    describe(*command, *a, "NAME");
    commands.push_back({command, [a](const AfterDashes&) { return told(*a, down(*a)); }});
  }
}

}  // namespace cove::cli
