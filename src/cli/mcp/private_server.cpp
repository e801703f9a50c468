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

constexpr std::chrono::seconds kTimeout{30};    // for a server to start or to stop
constexpr std::chrono::seconds kLeaveAfter{5};  // so that calls in a row share one server
constexpr std::size_t kShownLog = 2000;

// The files of a state directory by which every `cove mcp` finds the same server.
struct StateFiles {
  explicit StateFiles(const std::string& state_dir)
      : directory(state_dir),
        start_lock(state_dir + "/private.lock"),
        server_lock(state_dir + "/lock"),
        address(state_dir + "/private.json"),
        log(state_dir + "/private.log") {}
  std::string directory, start_lock, server_lock, address, log;
};

// Another user who can write these files could lead us to a server of his own.
Result<> check_ours(int fd, const std::string& path) {
  struct stat st{};
  if (::fstat(fd, &st) != 0) return fail_errno(errno, "stat {}", path);
  if (st.st_uid == ::geteuid() && (st.st_mode & 0022) == 0) return {};
  return fail(Errc::denied,
              fmt::format("{} belongs to uid {} or is writable by others: give another --state-dir", path, st.st_uid));
}

// Held while the server is looked for and started, so that only one is.
Result<UniqueFd> lock_start(const StateFiles& files) {
  COVE_TRY(auto fd, open_at(AT_FDCWD, files.start_lock, O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  COVE_CHECK(check_ours(fd.get(), files.start_lock));
  const auto until = Clock::now() + kTimeout;
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK || Clock::now() > until) return fail_errno(errno, "lock {}", files.start_lock);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return fd;
}

// A server holds the lock of its directory for as long as it runs.
bool server_runs(const StateFiles& files) {
  const auto fd = open_at(AT_FDCWD, files.server_lock, O_RDWR | O_NOFOLLOW);
  return fd && ::flock(fd->get(), LOCK_EX | LOCK_NB) != 0;
}

Result<client::Options> read_address(const StateFiles& files) {
  COVE_TRY(const auto file, open_at(AT_FDCWD, files.address, O_RDONLY | O_NOFOLLOW));
  COVE_CHECK(check_ours(file.get(), files.address));
  COVE_TRY(const auto text, read_all(file.get()));
  COVE_TRY(const auto object, object_of(text));
  COVE_TRY(auto address, client::parse_address(text_of(object, "url")));
  return client::Options{.address = std::move(address), .key = text_of(object, "key")};
}

// Readers see the old contents or the new, never a part.
Result<> write_address(const StateFiles& files, const config::Endpoint& endpoint, const std::string& key) {
  const auto temporary = files.address + ".new";
  ::unlink(temporary.c_str());
  COVE_TRY(const auto fd, open_at(AT_FDCWD, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  COVE_CHECK(write_all(fd.get(), json::serialize(json::object{
                                     {"url", "http://" + endpoint.text()}, {"key", key}, {"pid", ::getpid()}})));
  if (::rename(temporary.c_str(), files.address.c_str()) != 0) return fail_errno(errno, "write {}", files.address);
  return {};
}

config::LoadInput load_input(const PrivateServerOptions& options) {
  auto environment = config::cove_environment();
  // As with `cove run`, a user's own server starts even if this host cannot enforce every limit.
  environment.try_emplace("COVE_ALLOW_DEGRADED", "true");
  return {
      .file = options.config_file,
      .default_state_dir = options.state_dir,
      .environment = std::move(environment),
      .flags = {
          {"listen", "127.0.0.1:0"}, {"state_dir", options.state_dir}, {"log.level", "warn"}, {"log.access", "false"}}};
}

// Runs in the process that becomes the server. It keeps no descriptor of the caller but `ready_fd`: not its output,
// whose end somebody may wait for, and not its lock.
[[noreturn]] void become_server(const StateFiles& files, const config::Config& config, const config::LoadInput& input,
                                int ready_fd) {
  ::setsid();
  ::dup2(ready_fd, 3);
  ::syscall(SYS_close_range, 4, ~0U, 0);
  UniqueFd ready(3);
  ::fcntl(ready.get(), F_SETFD, FD_CLOEXEC);
  const UniqueFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const UniqueFd log(::open(files.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  ::dup2(nothing.get(), STDIN_FILENO);
  ::dup2(log ? log.get() : nothing.get(), STDOUT_FILENO);
  ::dup2(log ? log.get() : nothing.get(), STDERR_FILENO);
  const auto key = store::new_key();
  const auto report = [&](const config::Endpoint& endpoint) {
    if (!write_address(files, endpoint, key) || !write_all(ready.get(), "+")) ::_exit(1);
    ready.reset();
  };
  ::_exit(server::run_supervisor(config, input, {.key = key, .leave_after = kLeaveAfter, .on_listening = report}));
}

std::string end_of(const std::string& path) {
  auto text = read_file_at(AT_FDCWD, path).value_or("");
  if (text.size() > kShownLog) text.erase(0, text.size() - kShownLog);
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

Result<> start(const StateFiles& files, const PrivateServerOptions& options) {
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
    // A grandchild, so that nobody has to wait for it.
    if (::fork() != 0) ::_exit(0);
    become_server(files, config, input, theirs.release());
  }
  theirs.reset();
  int status = 0;
  ::waitpid(child, &status, 0);
  pollfd ready{.fd = ours.get(), .events = POLLIN, .revents = 0};
  std::array<char, 1> byte{};
  const bool answered = ::poll(&ready, 1, static_cast<int>(std::chrono::milliseconds(kTimeout).count())) == 1;
  if (answered && ::read(ours.get(), byte.data(), 1) == 1) return {};
  return fail(Errc::unavailable, fmt::format("the server did not start: {}", end_of(files.log)));
}

}  // namespace

Result<client::Options> private_server(const PrivateServerOptions& options) {
  if (options.state_dir.empty())
    return fail(Errc::invalid, "this user has no home directory to keep state in: give --state-dir or set HOME");
  const StateFiles files(options.state_dir);
  const UmaskScope umask(022);
  std::error_code failed;
  fs::create_directories(files.directory, failed);
  if (failed) return fail_errno(failed.value(), "create directory {}", files.directory);
  COVE_TRY(const auto directory, open_at(AT_FDCWD, files.directory, O_RDONLY | O_DIRECTORY));
  COVE_CHECK(check_ours(directory.get(), files.directory));
  COVE_TRY(const auto lock, lock_start(files));
  if (!server_runs(files)) {
    ::unlink(files.address.c_str());
    COVE_CHECK(start(files, options));
  }
  auto address = read_address(files);
  if (!address && address.error().sys_errno == ENOENT)
    return fail(Errc::exists, fmt::format("{} is in use by a server that `cove mcp` did not start: connect to it with "
                                          "--url, or give another --state-dir",
                                          files.directory));
  return address;
}

Result<> stop_private_server(const std::string& state_dir) {
  const StateFiles files(state_dir);
  if (!server_runs(files)) return fail(Errc::not_found, fmt::format("no server is running in {}", state_dir));
  const auto text = read_file_at(AT_FDCWD, files.address);
  if (!text) return fail(Errc::not_found, fmt::format("the server of {} was not started by `cove mcp`", state_dir));
  COVE_TRY(const auto object, object_of(*text));
  const auto pid = number_of(object, "pid");
  if (pid <= 1 || ::kill(static_cast<pid_t>(pid), SIGTERM) != 0) return fail_errno(errno, "stop process {}", pid);
  const auto until = Clock::now() + kTimeout;
  while (server_runs(files)) {
    if (Clock::now() > until) return fail(Errc::unavailable, fmt::format("process {} did not stop", pid));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return {};
}

}  // namespace cove::cli
