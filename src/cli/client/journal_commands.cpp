#include "cli/client/journal_commands.hpp"

#include <memory>

#include "cli/client/table.hpp"
#include "cli/console.hpp"

namespace cove::cli {
namespace {

namespace json = boost::json;
using client::sandbox_target;

struct JournalArguments : ClientOptions {
  std::string id, kind;
  std::uint64_t from = 1;
  bool follow = false;
};

std::string seconds_of(const json::object& act) {
  const auto ms = number_of(act, "durationMs");
  return fmt::format("{}.{:03}s", ms / 1000, ms % 1000);
}

// "12  10:41:07  mcp Claude Code 2.3   cell      df.head()   ok 0.080s"
std::string line_of(const json::object& act) {
  const auto at = text_of(act, "at");
  const auto client = text_of(act, "client");
  auto who = text_of(act, "door");
  if (who.empty()) who = "server";
  if (!client.empty()) who += " " + client;
  const auto outcome = text_of(act, "outcome");
  return fmt::format("{:>5}  {}  {:<28}  {:<9}  {:<8} {:>9}  {}", number_of(act, "seq"),
                     at.size() >= 19 ? at.substr(11, 8) : at, printable(who), printable(text_of(act, "kind")),
                     outcome.empty() ? "running" : printable(outcome), outcome.empty() ? "" : seconds_of(act),
                     printable(text_of(act, "summary")));
}

Result<> show_act(const JournalArguments& arguments, const json::object& act) {
  return put_line(arguments.json ? json::serialize(act) : line_of(act));
}

Result<> show_gap(const json::object& gap) {
  tell("acts {} to {} are no longer kept", number_of(gap, "from"), number_of(gap, "to"));
  return {};
}

client::Target activity_of(const JournalArguments& arguments, std::uint64_t from) {
  client::Target target(sandbox_target(arguments.id).text() + "/activity");
  target.with("from", std::to_string(from));
  if (!arguments.kind.empty()) target.with("kind", arguments.kind);
  return target;
}

Result<> follow_acts(const JournalArguments& arguments, client::Client& client) {
  COVE_TRY(auto stream, client.follow({.target = activity_of(arguments, arguments.from).text()}));
  while (true) {
    COVE_TRY(const auto event, stream.next());
    if (!event) return {};
    COVE_TRY(const auto object, object_of(event->data));
    COVE_CHECK(event->type == "gap" ? show_gap(object) : show_act(arguments, object));
  }
}

Result<> show_journal(const JournalArguments& arguments) {
  COVE_TRY(auto client, connect(arguments));
  if (arguments.follow) return follow_acts(arguments, client);
  for (auto from = arguments.from;;) {
    COVE_TRY(const auto answer, client.ask({.target = activity_of(arguments, from).with("limit", "1000").text()}));
    COVE_TRY(const auto page, object_of(answer.body));
    if (const auto* gap = page.if_contains("gap"); gap != nullptr && gap->is_object())
      COVE_CHECK(show_gap(gap->as_object()));
    const auto* acts = page.if_contains("activity");
    const auto next = static_cast<std::uint64_t>(number_of(page, "next"));
    if (acts == nullptr || !acts->is_array() || acts->as_array().empty() || next <= from) return {};
    for (const auto& act : acts->as_array()) {
      if (act.is_object()) COVE_CHECK(show_act(arguments, act.as_object()));
    }
    from = next;
  }
}

struct ReplayArguments : ClientOptions {
  std::string id, name, ttl;
  std::uint64_t until = 0;
};

Result<> show_step(const json::object& step) {
  COVE_CHECK(put_line(fmt::format("{:>5}  {:<8}  {:<9}  {}", number_of(step, "seq"), printable(text_of(step, "state")),
                                  printable(text_of(step, "kind")), printable(text_of(step, "summary")))));
  if (const auto why = text_of(step, "why"); !why.empty()) COVE_CHECK(put_line("       " + printable(why)));
  const auto* differences = step.if_contains("differences");
  if (differences == nullptr || !differences->is_array()) return {};
  for (const auto& one : differences->as_array()) {
    if (one.is_string()) COVE_CHECK(put_line("       " + printable(std::string_view(one.as_string()))));
  }
  return {};
}

// What a replay says as it goes on, line by line.
class ReplayReader {
 public:
  explicit ReplayReader(const ReplayArguments& arguments) : arguments_(arguments) {}

  Result<> take(std::string_view bytes) {
    rest_ += bytes;
    for (auto end = rest_.find('\n'); end != std::string::npos; end = rest_.find('\n')) {
      const auto line = rest_.substr(0, end);
      rest_.erase(0, end + 1);
      COVE_CHECK(show(line));
    }
    return {};
  }
  [[nodiscard]] bool ended() const { return ended_; }
  [[nodiscard]] std::int64_t different() const { return different_; }

 private:
  Result<> show(const std::string& line) {
    COVE_TRY(const auto object, object_of(line));
    const auto part = [&](std::string_view name) {
      const auto* value = object.if_contains(name);
      return value != nullptr && value->is_object() ? &value->as_object() : nullptr;
    };
    if (const auto* end = part("end")) {
      ended_ = true;
      different_ = number_of(*end, "different");
      if (!arguments_.json)
        return put_line(fmt::format("{} the same, {} different, {} skipped; sandbox {}", number_of(*end, "same"),
                                    different_, number_of(*end, "skipped"), printable(text_of(*end, "sandbox"))));
    }
    if (arguments_.json) return put_line(line);
    if (const auto* step = part("step")) return show_step(*step);
    return {};
  }

  const ReplayArguments& arguments_;
  std::string rest_;
  std::int64_t different_ = 0;
  bool ended_ = false;
};

int replay(const ReplayArguments& arguments) {
  ReplayReader reader(arguments);
  const auto done = [&]() -> Result<> {
    COVE_TRY(auto client, connect(arguments));
    json::object body;
    if (arguments.until > 0) body["until"] = arguments.until;
    if (!arguments.name.empty()) body["name"] = arguments.name;
    const client::Download download{.begin = [](std::optional<std::uint64_t>) { return Result<>(); },
                                    .take = [&](std::string_view bytes) { return reader.take(bytes); }};
    COVE_CHECK(
        client.ask(json_request("POST", sandbox_target(arguments.id).text() + "/replay", body), nullptr, &download));
    if (!reader.ended()) return fail(Errc::unavailable, "the server ended the replay before its end");
    return {};
  }();
  if (!done) return told(arguments, done);
  return reader.different() == 0 ? 0 : 1;
}

}  // namespace

void add_journal_commands(App& app, Commands& commands) {
  auto* journal = app.add_subcommand("journal", "Show what was done in a sandbox: who, what, how it ended");
  const auto j = std::make_shared<JournalArguments>();
  journal->add_option("id", j->id, "Sandbox id; one that has ended is found as long as its acts are kept")->required();
  journal->add_flag("-f,--follow", j->follow, "Keep printing acts as they begin and end");
  journal->add_option("--from", j->from, "Number of the first act to print");
  journal->add_option("--kind", j->kind,
                      "Only acts of this kind: lifecycle, command, program, cell, kernel, file, packages, network or "
                      "tool");
  journal->footer(
      "Examples:\n  cove journal demo\n  cove journal demo -f --kind cell\n  cove journal demo --json > demo.jsonl");
  describe(*journal, *j, "ID");
  commands.push_back({journal, [j](const AfterDashes&) { return told(*j, show_journal(*j)); }});

  auto* again = app.add_subcommand("replay", "Do what a sandbox's journal says again, in a fresh sandbox");
  const auto r = std::make_shared<ReplayArguments>();
  again->add_option("id", r->id, "Sandbox id; one that has ended is found as long as its acts are kept")->required();
  again->add_option("--until", r->until, "Number of the last act to do again");
  again->add_option("--name", r->name, "Id of the fresh sandbox (default: a random one)");
  again->footer(
      "Each act is compared with how it ended before: its status, what it printed, its result. The fresh sandbox "
      "stays.\n"
      "Exit status: 0 everything ended as before, 1 something ended otherwise or could not be done.\n"
      "Examples:\n  cove replay demo\n  cove replay demo --until 12 --name demo-12 && cove shell demo-12");
  describe(*again, *r, "ID");
  commands.push_back({again, [r](const AfterDashes&) { return replay(*r); }});
}

}  // namespace cove::cli
