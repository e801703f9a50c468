#include "cli/admin/doctor_command.hpp"

#include "cli/console.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>

#include "cli/run/one_shot.hpp"
#include "config/languages.hpp"
#include "doctor/contents.hpp"
#include "doctor/enforcement.hpp"
#include "doctor/host_baseline.hpp"
#include "doctor/report.hpp"
#include "host/state_dir.hpp"
#include "keeper/keeper.hpp"

namespace cove::cli {
namespace {

constexpr std::chrono::seconds kPatience{10};

double millis_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// The whole way of `cove run -- /bin/true`. What was found, for people.
Result<std::string> make_one(const std::string& state_dir) {
  const auto start = Clock::now();
  COVE_TRY(auto keeper, keeper::Keeper::start({.state_dir = state_dir}));
  const auto keeper_millis = millis_since(start);
  const auto made = Clock::now();
  COVE_TRY(auto shot, OneShot::create(keeper.link(), {}));
  const wire::Spawn spawn{.output_limit = {.bytes = 4096},
                          .directory = "/workspace",
                          .argv = {"/bin/true"},
                          .environment = {"PATH=/usr/bin:/bin"}};
  Feed feed;
  COVE_TRY(const auto end, shot.run(spawn, feed, kPatience));
  COVE_CHECK(shot.destroy());
  if (end.not_started) return fail_errno(end.not_started->sys_errno, "start /bin/true in a sandbox");
  if (!end.exited) return fail(Errc::unavailable, "the sandbox ended before /bin/true did");
  if (end.exited->exit_code != 0)
    return fail(Errc::unavailable, fmt::format("/bin/true ended with status {}", end.exited->exit_code));
  return fmt::format(
      "created, ran /bin/true and removed in {:.1f} ms; the keeper was ready after {:.1f} ms ({}, cgroup {})",
      millis_since(made), keeper_millis, name_of(keeper.enforcement().identity),
      sys::name_of(keeper.enforcement().cgroup));
}

doctor::Check check_sandbox(const std::string& state_dir) {
  const auto found = make_one(state_dir);
  doctor::Check check{.id = "sandbox", .title = "a complete sandbox"};
  if (found) {
    check.found = *found;
    return check;
  }
  check.status = doctor::Status::fail;
  check.found = found.error().message;
  check.consequence = "cove run cannot run anything here";
  check.fix = fmt::format("fix what fails above; if nothing does, check that {} is writable", state_dir);
  return check;
}

void append(doctor::Checks& checks, doctor::Checks more) {
  std::ranges::move(more, std::back_inserter(checks));
}

}  // namespace

int doctor_command(const DoctorOptions& options) {
  block_cancel_signals();
  const auto state_dir = options.state_dir.empty() ? host::default_state_dir() : options.state_dir;
  const auto languages = config::Languages::built_in();
  if (!languages) {
    tell("{}", languages.error().message);
    return 125;
  }
  const auto host = doctor::this_host(state_dir);
  auto checks = doctor::enforcement(host);
  checks.push_back(check_sandbox(state_dir));
  append(checks, doctor::host_baseline(host));
  append(checks, doctor::contents(host, *languages));

  const bool colour = ::isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
  auto text = options.json ? doctor::to_json(checks)
                           : doctor::table(checks, colour ? doctor::Colour::ansi : doctor::Colour::none);
  while (text.ends_with('\n')) text.pop_back();
  if (const auto put = put_line(text); !put) {
    tell("{}", put.error().message);
    return 125;
  }
  return doctor::enforced(checks) ? 0 : 1;
}

void add_doctor_command(App& app, Commands& commands) {
  auto* command = app.add_subcommand("doctor", "Show what this host can enforce, what it cannot, and how to fix it");
  const auto options = std::make_shared<DoctorOptions>();
  command->add_flag("--json", options->json, "Print one JSON object instead of a table");
  command->add_option("--state-dir", options->state_dir, "Directory for what Cove builds once and reuses");
  commands.push_back({command, [options](const AfterDashes&) { return doctor_command(*options); }});
}

}  // namespace cove::cli
