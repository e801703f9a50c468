#include "cli/mcp/private_server.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/io.hpp"
#include "base/umask.hpp"
#include "cli/client/client_options.hpp"
#include "cli/fixtures_program.hpp"
#include "config/config.hpp"
#include "server/supervisor.hpp"
#include "store/secret.hpp"

namespace cove::cli {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{30};   // for a server to come up, or to be gone
constexpr std::chrono::seconds kLeaveAfter{5};  // so that calls in a row find it still there
constexpr std::size_t kShownLog = 2000;

// The files of a state directory by which those who want its server find each other.
struct Place {
  explicit Place(const std::string& state_dir)
      : directory(state_dir),
        turn(state_dir + "/private.lock"),
        server(state_dir + "/lock"),
        address(state_dir + "/private.json"),
        log(state_dir + "/private.log") {}
  std::string directory, turn, server, address, log;
};

// Whoever could have written what lies there could lead us to a server of their own.
Result<> check_ours(int fd, const std::string& path) {
  struct stat st{};
  if (::fstat(fd, &st) != 0) return fail_errno(errno, "look at {}", path);
  if (st.st_uid == ::geteuid() && (st.st_mode & 0022) == 0) return {};
  return fail(Errc::denied, fmt::format("{} belongs to uid {} or can be written by others: give another --state-dir",
                                        path, st.st_uid));
}

// Held while one looks for the server and starts it.
Result<UniqueFd> take_turn(const Place& place) {
  COVE_TRY(auto fd, open_at(AT_FDCWD, place.turn, O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  COVE_CHECK(check_ours(fd.get(), place.turn));
  const auto until = Clock::now() + kPatience;
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK || Clock::now() > until) return fail_errno(errno, "lock {}", place.turn);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return fd;
}

// A server holds the lock of its directory as long as it lives.
bool server_lives(const Place& place) {
  const auto fd = open_at(AT_FDCWD, place.server, O_RDWR | O_NOFOLLOW);
  return fd && ::flock(fd->get(), LOCK_EX | LOCK_NB) != 0;
}

Result<client::Options> read_address(const Place& place) {
  COVE_TRY(const auto file, open_at(AT_FDCWD, place.address, O_RDONLY | O_NOFOLLOW));
  COVE_CHECK(check_ours(file.get(), place.address));
  COVE_TRY(const auto text, read_all(file.get()));
  COVE_TRY(const auto object, object_of(text));
  COVE_TRY(auto address, client::parse_address(text_of(object, "url")));
  return client::Options{.address = std::move(address), .key = text_of(object, "key")};
}

// Whole or not at all.
Result<> write_address(const Place& place, const config::Endpoint& endpoint, const std::string& key) {
  const auto aside = place.address + ".new";
  ::unlink(aside.c_str());
  COVE_TRY(const auto fd, open_at(AT_FDCWD, aside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  COVE_CHECK(write_all(fd.get(), json::serialize(json::object{
                                     {"url", "http://" + endpoint.text()}, {"key", key}, {"pid", ::getpid()}})));
  if (::rename(aside.c_str(), place.address.c_str()) != 0) return fail_errno(errno, "write {}", place.address);
  return {};
}

config::LoadInput load_input(const PrivateServerOptions& options) {
  auto environment = config::cove_environment();
  // As `cove run`: who starts it for himself is served, with the limits that his host can enforce.
  environment.try_emplace("COVE_ALLOW_DEGRADED", "true");
  return {
      .file = options.config_file,
      .default_state_dir = options.state_dir,
      .environment = std::move(environment),
      .flags = {
          {"listen", "127.0.0.1:0"}, {"state_dir", options.state_dir}, {"log.level", "warn"}, {"log.access", "false"}}};
}

// In the process that becomes the server. Nothing of the caller's stays open but `told`: not its output, whose end
// somebody may wait for, and not its turn.
[[noreturn]] void become_server(const Place& place, const config::Config& config, const config::LoadInput& input,
                                int told) {
  ::setsid();
  ::dup2(told, 3);
  ::syscall(SYS_close_range, 4, ~0U, 0);
  UniqueFd ready(3);
  ::fcntl(ready.get(), F_SETFD, FD_CLOEXEC);
  const UniqueFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const UniqueFd log(::open(place.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  ::dup2(nothing.get(), STDIN_FILENO);
  ::dup2(log ? log.get() : nothing.get(), STDOUT_FILENO);
  ::dup2(log ? log.get() : nothing.get(), STDERR_FILENO);
  const auto key = store::new_key();
  const auto tell = [&](const config::Endpoint& endpoint) {
    if (!write_address(place, endpoint, key) || !write_all(ready.get(), "+")) ::_exit(1);
    ready.reset();
  };
  ::_exit(server::run_supervisor(config, input, {.key = key, .leave_after = kLeaveAfter, .on_listening = tell}));
}

std::string end_of(const std::string& path) {
  auto text = read_file_at(AT_FDCWD, path).value_or("");
  if (text.size() > kShownLog) text.erase(0, text.size() - kShownLog);
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

Result<> start(const Place& place, const PrivateServerOptions& options) {
  const auto input = load_input(options);
  COVE_TRY(const auto config, config::load(input));
  COVE_CHECK(use_fixtures_program(config));
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno(errno, "pipe");
  const UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  const auto child = ::fork();
  if (child < 0) return fail_errno(errno, "fork");
  if (child == 0) {
    // Not our child: nobody has to wait for it.
    if (::fork() != 0) ::_exit(0);
    become_server(place, config, input, theirs.release());
  }
  theirs.reset();
  int status = 0;
  ::waitpid(child, &status, 0);
  pollfd told{.fd = ours.get(), .events = POLLIN, .revents = 0};
  std::array<char, 1> word{};
  const bool spoke = ::poll(&told, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())) == 1;
  if (spoke && ::read(ours.get(), word.data(), 1) == 1) return {};
  return fail(Errc::unavailable, fmt::format("the server did not start: {}", end_of(place.log)));
}

}  // namespace

Result<client::Options> private_server(const PrivateServerOptions& options) {
  if (options.state_dir.empty())
    return fail(Errc::invalid, "this user has no home directory to keep state in: give --state-dir, or set HOME");
  const Place place(options.state_dir);
  const UmaskScope umask(022);
  std::error_code failed;
  fs::create_directories(place.directory, failed);
  if (failed) return fail_errno(failed.value(), "make directory {}", place.directory);
  COVE_TRY(const auto directory, open_at(AT_FDCWD, place.directory, O_RDONLY | O_DIRECTORY));
  COVE_CHECK(check_ours(directory.get(), place.directory));
  COVE_TRY(const auto turn, take_turn(place));
  if (!server_lives(place)) {
    ::unlink(place.address.c_str());
    COVE_CHECK(start(place, options));
  }
  auto address = read_address(place);
  if (!address && address.error().sys_errno == ENOENT)
    return fail(Errc::exists, fmt::format("a server that was not started by `cove mcp` uses {}: attach to it with "
                                          "--url, or give another --state-dir",
                                          place.directory));
  return address;
}

Result<> stop_private_server(const std::string& state_dir) {
  const Place place(state_dir);
  if (!server_lives(place)) return fail(Errc::not_found, fmt::format("no server runs with {}", state_dir));
  const auto text = read_file_at(AT_FDCWD, place.address);
  if (!text) return fail(Errc::not_found, fmt::format("the server of {} was not started by `cove mcp`", state_dir));
  COVE_TRY(const auto object, object_of(*text));
  const auto pid = number_of(object, "pid");
  if (pid <= 1 || ::kill(static_cast<pid_t>(pid), SIGTERM) != 0) return fail_errno(errno, "end process {}", pid);
  const auto until = Clock::now() + kPatience;
  while (server_lives(place)) {
    if (Clock::now() > until) return fail(Errc::unavailable, fmt::format("process {} does not end", pid));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return {};
}

}  // namespace cove::cli
