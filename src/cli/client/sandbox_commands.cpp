#include "cli/client/sandbox_commands.hpp"

#include <unistd.h>

#include <iostream>
#include <memory>

#include "base/clock.hpp"
#include "base/units.hpp"
#include "cli/client/limit_options.hpp"
#include "cli/client/network_options.hpp"
#include "cli/client/table.hpp"
#include "cli/console.hpp"

namespace cove::cli {
namespace {

namespace json = boost::json;
using client::sandbox_target;

struct CreateArguments : ClientOptions {
  std::string id, ttl, image, from;
  LimitOptions limits;
  NetworkOptions network;
  Words environment, labels;
};

Result<> set_ttl(json::object& body, const std::string& text) {
  if (text.empty()) return {};
  const auto ttl = parse_duration(text);
  if (!ttl) return fail(Errc::invalid, fmt::format("--ttl: {}", ttl.error().message));
  body["ttlSeconds"] = std::chrono::ceil<std::chrono::seconds>(*ttl).count();
  return {};
}

// What the server has to say about the request, for people.
void tell_notes(const json::object& sandbox) {
  const auto* notes = sandbox.if_contains("notes");
  if (notes == nullptr || !notes->is_array()) return;
  for (const auto& note : notes->as_array()) {
    if (note.is_string()) tell("note: {}", in_flags(note.as_string()));
  }
}

Result<json::object> create_body(const CreateArguments& arguments) {
  json::object body;
  COVE_CHECK(set_ttl(body, arguments.ttl));
  COVE_CHECK(set_limits(body, arguments.limits));
  if (!arguments.image.empty()) body["image"] = arguments.image;
  if (!arguments.from.empty()) body["template"] = arguments.from;
  COVE_TRY(auto environment, pairs("--env", arguments.environment));
  COVE_TRY(auto labels, pairs("--label", arguments.labels));
  if (!environment.empty()) body["env"] = std::move(environment);
  if (!labels.empty()) body["labels"] = std::move(labels);
  if (arguments.network.given()) {
    COVE_TRY(body["network"], policy_of(arguments.network));
  }
  return body;
}

Result<> create(const CreateArguments& arguments) {
  COVE_TRY(const auto body, create_body(arguments));
  COVE_TRY(auto client, connect(arguments));
  const auto request = arguments.id.empty() ? json_request("POST", "/v1/sandboxes", body)
                                            : json_request("PUT", sandbox_target(arguments.id).text(), body);
  COVE_TRY(const auto answer, client.ask(request));
  if (arguments.json) return put_line(answer.body);
  COVE_TRY(const auto sandbox, object_of(answer.body));
  tell_notes(sandbox);
  return put_line(printable(text_of(sandbox, "id")));
}

struct UpdateArguments : ClientOptions {
  std::string id, ttl;
  LimitOptions limits;
};

Result<> update(const UpdateArguments& arguments) {
  json::object body;
  COVE_CHECK(set_ttl(body, arguments.ttl));
  COVE_CHECK(set_limits(body, arguments.limits));
  if (body.empty()) return fail(Errc::invalid, "nothing to change: give --memory, --disk, --cpus, --pids or --ttl");
  COVE_TRY(auto client, connect(arguments));
  COVE_TRY(const auto answer, client.ask(json_request("PATCH", sandbox_target(arguments.id).text(), body)));
  if (arguments.json) return put_line(answer.body);
  COVE_TRY(const auto sandbox, object_of(answer.body));
  tell_notes(sandbox);
  const auto* limits = sandbox.if_contains("limits");
  if (limits == nullptr || !limits->is_object()) return put_line(printable(text_of(sandbox, "id")));
  const auto& now = limits->as_object();
  return put_line(fmt::format("{}: memory {}, disk {}, {:g} cpus, {} pids", printable(text_of(sandbox, "id")),
                              format_size(static_cast<std::uint64_t>(number_of(now, "memoryBytes"))),
                              format_size(static_cast<std::uint64_t>(number_of(now, "diskBytes"))),
                              static_cast<double>(number_of(now, "cpuMillis")) / 1000, number_of(now, "pids")));
}

struct ListArguments : ClientOptions {
  Words labels;
  std::string state;
  bool quiet = false;
};

std::string labels_of(const json::object& sandbox) {
  std::string text;
  const auto* labels = sandbox.if_contains("labels");
  if (labels == nullptr || !labels->is_object()) return text;
  for (const auto& [name, value] : labels->as_object())
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", std::string_view(name), text_of(labels->as_object(), name));
  return text;
}

std::vector<std::string> row_of(const json::object& sandbox) {
  const auto now = unix_millis() / 1000;
  const auto* limits = sandbox.if_contains("limits");
  const auto limit = limits != nullptr && limits->is_object() ? limits->as_object() : json::object();
  const auto since = unix_seconds(text_of(sandbox, "createdAt"));
  const auto until = unix_seconds(text_of(sandbox, "expiresAt"));
  return {text_of(sandbox, "id"),
          text_of(sandbox, "state"),
          since ? coarse(std::chrono::seconds(now - *since)) : "-",
          until ? coarse(std::chrono::seconds(*until - now)) : "-",
          format_size(static_cast<std::uint64_t>(number_of(limit, "memoryBytes"))),
          fmt::format("{:g}", static_cast<double>(number_of(limit, "cpuMillis")) / 1000),
          std::to_string(number_of(sandbox, "processes")),
          labels_of(sandbox)};
}

// Every page of the list.
Result<json::array> all_sandboxes(client::Client& client, const ListArguments& arguments) {
  json::array all;
  std::string cursor;
  do {
    client::Target target("/v1/sandboxes");
    target.with("limit", "1000");
    for (const auto& label : arguments.labels) target.with("label", label);
    if (!arguments.state.empty()) target.with("state", arguments.state);
    if (!cursor.empty()) target.with("cursor", cursor);
    COVE_TRY(const auto answer, client.ask({.target = target.text()}));
    COVE_TRY(auto page, object_of(answer.body));
    auto* list = page.if_contains("sandboxes");
    if (list != nullptr && list->is_array()) {
      for (auto& sandbox : list->as_array()) {
        if (sandbox.is_object()) all.push_back(std::move(sandbox));
      }
    }
    cursor = text_of(page, "nextCursor");
  } while (!cursor.empty());
  return all;
}

Result<> list(const ListArguments& arguments) {
  COVE_TRY(auto client, connect(arguments));
  COVE_TRY(auto all, all_sandboxes(client, arguments));
  if (arguments.json)
    return put_line(json::serialize(json::object{{"sandboxes", std::move(all)}, {"nextCursor", nullptr}}));
  Table table({"ID", "STATE", "AGE", "EXPIRES IN", "MEMORY", "CPUS", "PROCS", "LABELS"});
  for (const auto& sandbox : all) {
    if (arguments.quiet)
      COVE_CHECK(put_line(printable(text_of(sandbox.as_object(), "id"))));
    else
      table.add(row_of(sandbox.as_object()));
  }
  return arguments.quiet ? Result<>() : put_line(table.text());
}

struct IdArguments : ClientOptions {
  Words ids;
  bool all = false;
  bool yes = false;
};

Result<> inspect(const IdArguments& arguments) {
  COVE_TRY(auto client, connect(arguments));
  for (const auto& id : arguments.ids) {
    COVE_TRY(const auto answer, client.ask({.target = sandbox_target(id).text()}));
    if (arguments.json) {
      COVE_CHECK(put_line(answer.body));
      continue;
    }
    COVE_TRY(const auto sandbox, object_of(answer.body));
    COVE_CHECK(put_line(pretty(sandbox)));
  }
  return {};
}

// The same for each; a failure is told and the rest are done all the same.
int for_each_id(const IdArguments& arguments,
                const std::function<Result<std::string>(client::Client&, const std::string&)>& one) {
  auto client = connect(arguments);
  if (!client) return report_error(arguments, client.error());
  int status = 0;
  for (const auto& id : arguments.ids) {
    const auto done = one(*client, id);
    const auto put = done ? put_line(*done) : Result<>();
    if (!done) status = report_error(arguments, done.error());
    if (!put) return report_error(arguments, put.error());
  }
  return status;
}

int change(const IdArguments& arguments, const char* verb) {
  return for_each_id(arguments, [&](client::Client& client, const std::string& id) -> Result<std::string> {
    COVE_TRY(const auto answer,
             client.ask({.method = "POST", .target = sandbox_target(id, fmt::format("/{}", verb)).text()}));
    if (arguments.json) return answer.body;
    return printable(id);
  });
}

Result<bool> agreed(std::size_t count) {
  if (::isatty(STDIN_FILENO) == 0)
    return fail(Errc::invalid,
                "--all deletes every sandbox: confirm with --yes, since standard input is not a terminal");
  COVE_CHECK(write_all(STDERR_FILENO, fmt::format("Delete {} sandbox{} and everything in {}? [y/N] ", count,
                                                  count == 1 ? "" : "es", count == 1 ? "it" : "them")));
  std::string line;
  std::getline(std::cin, line);
  return line == "y" || line == "Y" || line == "yes";
}

int remove(IdArguments arguments) {
  if (arguments.ids.empty() != arguments.all)
    return report_error(arguments, {.code = Errc::invalid, .message = "name the sandboxes to end, or say --all"}, 125);
  if (arguments.all) {
    auto client = connect(arguments);
    if (!client) return report_error(arguments, client.error());
    const auto all = all_sandboxes(*client, {});
    if (!all) return report_error(arguments, all.error());
    if (all->empty()) return 0;
    const auto sure = arguments.yes ? Result<bool>(true) : agreed(all->size());
    if (!sure) return report_error(arguments, sure.error(), 125);
    if (!*sure) return 1;
    for (const auto& sandbox : *all) arguments.ids.push_back(text_of(sandbox.as_object(), "id"));
  }
  return for_each_id(arguments, [&](client::Client& client, const std::string& id) -> Result<std::string> {
    COVE_TRY(const auto answer, client.ask({.method = "DELETE", .target = sandbox_target(id).text()}));
    if (arguments.json) return json::serialize(json::object{{"id", id}, {"deleted", true}});
    return printable(id);
  });
}

}  // namespace

void add_sandbox_commands(App& app, Commands& commands) {
  {
    auto* command = app.add_subcommand("create", "Create a sandbox and print its id");
    const auto a = std::make_shared<CreateArguments>();
    command->add_option("id", a->id,
                        "Id of the sandbox (default: chosen by the server). If it exists, it is kept and its "
                        "time to live restarts");
    command->add_option("--ttl", a->ttl, "Time to live while unused, such as 15m (default: the server's)");
    describe(*command, a->limits);
    describe(*command, a->network);
    again(command->add_option("-e,--env", a->environment,
                              "Environment variable NAME=VALUE for every process in it; repeatable"));
    again(command->add_option("-l,--label", a->labels, "Label NAME=VALUE, for cove ls --label; repeatable"));
    command->add_option("--template", a->from, "Template to start from (see cove template list)");
    command->add_option("--image", a->image,
                        "Image to start from; the server's [images] setting maps it to a template");
    command->footer(
        "Examples:\n  cove create demo --ttl 1h --memory 1Gi\n  cove create web --allow example.com:443\n  id=$(cove "
        "create --label job=42)\n  cove exec $id "
        "python3 -c 'print(6*7)'");
    describe(*command, *a, "[ID]");
    commands.push_back({command, [a](const AfterDashes&) { return told(*a, create(*a)); }});
  }
  {
    auto* command = app.add_subcommand("update", "Change the limits of a running sandbox");
    const auto a = std::make_shared<UpdateArguments>();
    command->add_option("id", a->id, "Sandbox id")->required();
    command->add_option("--ttl", a->ttl, "Time to live while unused, such as 15m");
    describe(*command, a->limits);
    command->footer(
        "What runs in it goes on. A limit below what is in use is refused. Disk space follows the memory unless it was "
        "set.\n"
        "Examples:\n  cove update demo --memory 4G\n  cove update demo --cpus 2 --pids 1000");
    describe(*command, *a, "ID");
    commands.push_back({command, [a](const AfterDashes&) { return told(*a, update(*a)); }});
  }
  {
    auto* command = app.add_subcommand("ls", "List sandboxes");
    const auto a = std::make_shared<ListArguments>();
    again(command->add_option("-l,--label", a->labels,
                              "List only sandboxes with the label NAME=VALUE; repeatable, all must match"));
    command->add_option("--state", a->state,
                        "List only sandboxes in this state: creating, running, paused or deleting");
    command->add_flag("-q,--quiet", a->quiet, "Print only the ids, one per line")->group("Output");
    command->footer("Examples:\n  cove ls\n  cove rm $(cove ls -q --label job=42)");
    describe(*command, *a, "");
    commands.push_back({command, [a](const AfterDashes&) { return told(*a, list(*a)); }});
  }
  const auto with_ids = [&](const char* name, const char* what, const char* footer,
                            const std::function<int(const IdArguments&)>& run) {
    auto* command = app.add_subcommand(name, what);
    const auto a = std::make_shared<IdArguments>();
    auto* ids = command->add_option("id", a->ids, "Sandbox ids")->expected(0, 1'000'000)->type_name("ID…");
    if (std::string_view(name) == "rm") {
      command->add_flag("--all", a->all, "Delete all sandboxes, after asking");
      command->add_flag("-y,--yes", a->yes, "Do not ask for confirmation");
    } else {
      ids->required();
    }
    command->footer(footer);
    describe(*command, *a, std::string_view(name) == "rm" ? "ID… | --all" : "ID…");
    commands.push_back({command, [a, run](const AfterDashes& after) {
                          if (after) a->ids.insert(a->ids.end(), after->begin(), after->end());
                          return run(*a);
                        }});
  };
  with_ids("inspect", "Show the details of sandboxes",
           "Examples:\n  cove inspect demo\n  cove inspect --json demo | jq .usage.memoryBytes",
           [](const IdArguments& a) { return told(a, inspect(a)); });
  with_ids("touch", "Restart the time to live of sandboxes", "Example:\n  cove touch demo",
           [](const IdArguments& a) { return change(a, "touch"); });
  with_ids("pause", "Freeze all processes of sandboxes", "Example:\n  cove pause demo && cove resume demo",
           [](const IdArguments& a) { return change(a, "pause"); });
  with_ids("resume", "Resume paused sandboxes", "Example:\n  cove resume demo",
           [](const IdArguments& a) { return change(a, "resume"); });
  with_ids("rm", "Delete sandboxes and everything in them", "Examples:\n  cove rm demo other\n  cove rm --all --yes",
           [](const IdArguments& a) { return remove(a); });
}

}  // namespace cove::cli
