#include "server/host_servers.hpp"

#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <span>

#include "mcp/host/minder.hpp"
#include "sys/privilege.hpp"
#include "sys/record.hpp"
#include "tools/definition.hpp"

namespace cove::server {
namespace {

constexpr std::size_t kMaxHostServers = 256;

// The user that a server on the host runs as.
struct HostUser {
  std::string name;
  uid_t uid = 0;
  gid_t gid = 0;
  std::string home;
  std::string shell;
};

Result<HostUser> user_of(const std::string& wanted) {
  const bool privileged = ::geteuid() == 0;
  if (privileged && wanted.empty()) return fail(Errc::invalid, "user is missing: name the user that it runs as");
  const auto* entry = wanted.empty() ? ::getpwuid(::geteuid()) : ::getpwnam(wanted.c_str());
  if (entry == nullptr) return fail(Errc::invalid, fmt::format("user: this host has no user \"{}\"", wanted));
  if (entry->pw_uid == 0) return fail(Errc::denied, "user: it may not run as root");
  if (!privileged && entry->pw_uid != ::geteuid())
    return fail(Errc::denied,
                "user: a server that is not started by root can run it as its own user only; leave it out");
  return HostUser{.name = entry->pw_name,
                  .uid = entry->pw_uid,
                  .gid = entry->pw_gid,
                  .home = entry->pw_dir,
                  .shell = entry->pw_shell};
}

Result<mcp::host::Command> command_of(const mcp::client::ServerConfig& given, const HostUser& user) {
  const auto lookup = [](const std::string& name) -> std::optional<std::string> {
    const char* value = name.starts_with("COVE_") ? nullptr : std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  COVE_TRY(const auto config, mcp::client::substitute(given, lookup));
  mcp::host::Command command;
  command.argv.push_back(config.command);
  command.argv.insert(command.argv.end(), config.args.begin(), config.args.end());
  const char* path = std::getenv("PATH");
  std::map<std::string, std::string> variables{
      {"HOME", user.home},   {"LOGNAME", user.name}, {"PATH", path == nullptr ? "/usr/local/bin:/usr/bin:/bin" : path},
      {"SHELL", user.shell}, {"TERM", "dumb"},       {"USER", user.name}};
  for (const auto& [name, value] : config.env) variables[name] = value;
  for (const auto& [name, value] : variables) command.environment.push_back(name + "=" + value);
  command.directory = !config.cwd.empty() ? config.cwd : "/";
  return command;
}

bool become_user(const HostUser& user) {
  if (::geteuid() == 0 && (::initgroups(user.name.c_str(), user.gid) != 0 || !sys::set_ids(user.uid, user.gid)))
    return false;
  return sys::give_up_capabilities() && sys::set_no_new_privileges();
}

Result<mcp::host::Minded> start_named(const std::map<std::string, std::string>& named, const std::string& name) {
  const auto found = named.find(name);
  if (found == named.end())
    return fail(Errc::not_found,
                "it is new in the configuration; a server on the host begins with the next start of cove");
  COVE_TRY(const auto definition, tools::parse_named(name, found->second));
  if (definition.place != tools::Place::host)
    return fail(Errc::denied, "it had another place when cove was started; start cove again");
  COVE_TRY(const auto user, user_of(definition.user));
  COVE_TRY(const auto command, command_of(definition.config, user));
  return mcp::host::start(command, [&user] { return become_user(user); });
}

}  // namespace

void HostServers::start(const std::map<std::string, std::string>& named, const wire::SupervisorRequest& request,
                        UniqueFd answer) {
  const std::string name(request.packages, ::strnlen(request.packages, sizeof request.packages));
  wire::HostServerAnswer said;
  Result<mcp::host::Minded> started;
  if (running_.size() >= kMaxHostServers)
    started = fail(Errc::over_limit, "too many servers run on the host");
  else
    started = start_named(named, name);
  std::array<int, 4> ends{};
  std::size_t count = 0;
  if (started) {
    running_.insert(started->minder);
    ends = {started->input.get(), started->output.get(), started->errors.get(), started->control.get()};
    count = ends.size();
  } else {
    const auto why = fmt::format("[tools.{}]: {}", name, started.error().message);
    ::memcpy(said.why, why.data(), std::min(why.size(), sizeof said.why - 1));
  }
  // Nobody may listen any more; what was started ends with its last descriptor here.
  [[maybe_unused]] const auto sent =
      sys::send_record(answer.get(), std::as_bytes(std::span(&said, 1)), std::span(ends).first(count));
}

}  // namespace cove::server
