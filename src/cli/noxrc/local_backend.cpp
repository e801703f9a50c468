#include "cli/noxrc/local_backend.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/id.hpp"
#include "base/io.hpp"
#include "base/text.hpp"
#include "cli/noxrc/rules.hpp"
#include "cli/run/file_transfer.hpp"
#include "cli/run/one_shot.hpp"
#include "files/location.hpp"
#include "files/pack.hpp"
#include "files/unpack.hpp"
#include "files/walk.hpp"
#include "guest/environment.hpp"
#include "host/state_dir.hpp"
#include "wire/file_commands.hpp"

namespace cove::cli::noxrc {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kOutputLimit = 64U << 20;
constexpr std::chrono::minutes kCopyTimeout{2};
constexpr std::uint64_t kMaxRatio = 2000;
constexpr std::string_view kInside = "/workspace";

Error cancelled() {
  return {.code = Errc::unavailable, .message = "interrupted", .sys_errno = EINTR};
}

// Nobody else's directory, and no link: /tmp is everybody's.
Result<UniqueFd> own_directory(int parent, const std::string& name, unsigned mode) {
  if (::mkdirat(parent, name.c_str(), mode) != 0 && errno != EEXIST) return fail_errno(errno, "create {}", name);
  COVE_TRY(auto fd, open_at(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  struct stat st{};
  if (::fstat(fd.get(), &st) != 0) return fail_errno(errno, "stat {}", name);
  if (st.st_uid != ::geteuid()) return fail(Errc::denied, fmt::format("{} belongs to somebody else", name));
  return fd;
}

Result<UniqueFd> scratch_file(int directory) {
  UniqueFd fd(::openat(directory, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!fd) return fail_errno(errno, "make a temporary file");
  return fd;
}

// One run of the file helper that must go well.
Result<> ask(OneShot& shot, guest::file_protocol::Command command, Feed& feed) {
  const auto end = run_file_helper(shot, std::move(command), feed, kCopyTimeout);
  if (shot.cancel_signal() != 0) return tl::unexpected<Error>(cancelled());
  if (!end) return tl::unexpected<Error>(end.error());
  return {};
}

ExecResult result_of(const ProcessEnd& end, Feed& feed, const OneShot& shot, const ExecRequest& request) {
  const auto& name = request.command.front();
  if (end.not_started) {
    if (end.not_started->stage == wire::SpawnStage::program && end.not_started->sys_errno == ENOENT)
      return {.exit_code = 127, .out = "", .err = fmt::format("Command not found: {}", name)};
    return {.exit_code = 1,
            .out = "",
            .err = fmt::format("Execution error: {}: {}", name, std::strerror(end.not_started->sys_errno))};
  }
  if (shot.stopped_by_us() == guest::Reason::timeout)
    return {
        .exit_code = 124, .out = "", .err = fmt::format("Command timed out after {} seconds", request.timeout_seconds)};
  if (!end.exited) return {.exit_code = 1, .out = "", .err = "Execution error: the sandbox ended"};
  ExecResult result{.exit_code = end.exited->signal != 0 ? -end.exited->signal : end.exited->exit_code,
                    .out = std::move(feed.out.captured),
                    .err = std::move(feed.err.captured)};
  return result;
}

// What the sandbox has in its workspace takes the place of what we had, in one step.
Result<> take_back(OneShot& shot, const fs::path& directory, int directory_fd) {
  COVE_TRY(const auto archive, scratch_file(directory_fd));
  Feed feed;
  feed.out.fd = archive.get();
  COVE_CHECK(ask(shot, guest::file_protocol::command(wire::FileVerb::download, std::string(kInside)), feed));
  if (::lseek(archive.get(), 0, SEEK_SET) != 0) return fail_errno(errno, "seek");
  const auto aside = fmt::format(".workspace-{}", SandboxId::random().view().substr(0, 8));
  const files::UnpackLimits limits{.ratio = {.max_ratio = kMaxRatio}};
  COVE_CHECK(files::unpack(archive.get(), directory / aside, limits));
  if (::renameat2(directory_fd, aside.c_str(), directory_fd, "workspace", RENAME_EXCHANGE) != 0)
    return fail_errno(errno, "put the files in place");
  return files::remove_tree(directory_fd, aside);
}

// Below a directory, never through a link: what lies there was written by commands nobody has read.
Result<> write_beneath(UniqueFd directory, std::string_view path, const std::string& from) {
  std::string_view rest = path;
  while (true) {
    const std::string part(take_until(rest, '/'));
    if (part.empty() || part == ".") {
      if (rest.empty()) return fail(Errc::invalid, fmt::format("'{}' names no file", path));
      continue;
    }
    if (!rest.empty()) {
      COVE_TRY(directory, own_directory(directory.get(), part, 0755));
      continue;
    }
    COVE_TRY(const auto content, read_file_at(AT_FDCWD, from, std::size_t{1} << 30));
    const auto aside = fmt::format(".upload-{}", SandboxId::random().view().substr(0, 8));
    COVE_TRY(const auto fd, open_at(directory.get(), aside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644));
    auto written = write_all(fd.get(), content);
    if (written && ::renameat(directory.get(), aside.c_str(), directory.get(), part.c_str()) != 0)
      written = fail_errno(errno, "write {}", path);
    if (!written) ::unlinkat(directory.get(), aside.c_str(), 0);
    return written;
  }
}

}  // namespace

LocalBackend::LocalBackend(std::function<void(const std::string&)> warn, Warnings warnings)
    : warn_(std::move(warn)), warnings_(warnings) {
  warn_("WARNING: LOCAL TEST MODE: no server is asked; files are kept in " + (base_ / "noxrunner_sandbox_*").string());
}

Result<LocalBackend::Session*> LocalBackend::ensure(const std::string& session) {
  if (const auto found = sessions_.find(session); found != sessions_.end()) return &found->second;
  const auto name = "noxrunner_sandbox_" + safe_id(session);
  COVE_TRY(const auto base, open_at(AT_FDCWD, base_.string(), O_RDONLY | O_DIRECTORY));
  COVE_TRY(auto fd, own_directory(base.get(), name, 0700));
  COVE_TRY(const auto workspace, own_directory(fd.get(), "workspace", 0755));
  return &sessions_.emplace(session, Session{.directory = base_ / name, .fd = std::move(fd)}).first->second;
}

Result<std::string> LocalBackend::create(const std::string& session, const CreateRequest& /*request*/) {
  COVE_CHECK(ensure(session));
  return "local-" + session;
}

Result<bool> LocalBackend::wait_ready(const std::string& session, int /*timeout_seconds*/) {
  COVE_CHECK(ensure(session));
  return true;
}

Result<ExecResult> LocalBackend::exec(const std::string& session, const ExecRequest& request) {
  COVE_TRY(const auto* local, ensure(session));
  if (!may_run(request.command)) {
    const auto name = request.command.empty() ? std::string("empty") : request.command.front();
    return ExecResult{.exit_code = 1, .out = "", .err = fmt::format("Command not allowed: {}", name)};
  }
  if (!std::exchange(warned_, true) || warnings_ == Warnings::every_command)
    warn_("WARNING: the command runs on this machine, in a sandbox of its own with a copy of the files");
  // Inside, /workspace is the workspace: a path below it means that one, wherever it is kept here.
  const auto workspace = local->directory / "workspace";
  auto wanted = request.workdir;
  if (wanted == kInside || wanted.starts_with("/workspace/"))
    wanted = workspace.string() + wanted.substr(kInside.size());
  const auto relative = sanitized(wanted, local->directory).lexically_relative(workspace).string();
  const bool below = !relative.empty() && relative != "." && !relative.starts_with("..");
  auto result = run(*local, request, below ? fmt::format("{}/{}", kInside, relative) : std::string(kInside));
  if (!result && !client::interrupted(result.error()))
    return ExecResult{.exit_code = 1, .out = "", .err = "Execution error: " + result.error().message};
  return result;
}

Result<ExecResult> LocalBackend::run(const Session& session, const ExecRequest& request, const std::string& workdir) {
  COVE_TRY(const auto archive, scratch_file(session.fd.get()));
  COVE_CHECK(files::pack(session.directory / "workspace", archive.get(), {}));
  if (::lseek(archive.get(), 0, SEEK_SET) != 0) return fail_errno(errno, "seek");
  if (!keeper_) {
    block_cancel_signals();
    COVE_TRY(auto keeper, keeper::Keeper::start({.state_dir = host::default_state_dir()}));
    keeper_.emplace(std::move(keeper));
  }
  COVE_TRY(auto shot, OneShot::create(keeper_->link(), {.limits = {}}));
  auto result = [&]() -> Result<ExecResult> {
    Feed copy_in{.input_fd = archive.get()};
    auto upload = guest::file_protocol::command(wire::FileVerb::upload, std::string(kInside));
    guest::file_protocol::add(upload, wire::kMaxRatioOption, kMaxRatio);
    COVE_CHECK(ask(shot, std::move(upload), copy_in));
    Feed nothing;
    COVE_CHECK(ask(shot, guest::file_protocol::command(wire::FileVerb::mkdir, workdir), nothing));
    auto environment = guest::base_environment(share_of({}));
    for (const auto& [name, value] : request.environment)
      guest::set_variable(environment,
                          fmt::format("{}={}", std::string_view(name), text_of(request.environment, name)));
    const wire::Spawn spawn{.output_limit = {.bytes = kOutputLimit, .kept = wire::Kept::both_ends},
                            .directory = workdir,
                            .argv = request.command,
                            .environment = environment};
    Feed feed;
    COVE_TRY(const auto end, shot.run(spawn, feed, std::chrono::seconds(request.timeout_seconds)));
    if (shot.cancel_signal() != 0) return tl::unexpected<Error>(cancelled());
    auto ran = result_of(end, feed, shot, request);
    if (end.exited || end.not_started) {
      shot.kill_everything();  // nothing it left behind may meddle with the copying
      COVE_CHECK(take_back(shot, session.directory, session.fd.get()));
    }
    return ran;
  }();
  COVE_TRY(const auto counted, shot.destroy());
  if (result && result->exit_code != 0 && counted.oom_kills > 0)
    result->err += "a process was killed: the memory limit was reached\n";
  return result;
}

Result<> LocalBackend::upload(const std::string& session, const std::map<std::string, std::string>& files,
                              const std::string& dest) {
  COVE_TRY(const auto* local, ensure(session));
  const auto workspace = local->directory / "workspace";
  auto wanted = dest;
  if (wanted == kInside || wanted.starts_with("/workspace/"))
    wanted = workspace.string() + wanted.substr(kInside.size());
  auto below = sanitized(wanted, local->directory).lexically_relative(workspace).string();
  if (below == "." || below.starts_with("..")) below.clear();
  for (const auto& [name, path] : files) {
    COVE_TRY(auto root, open_at(local->fd.get(), "workspace", O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    COVE_CHECK(write_beneath(std::move(root), below + "/" + upload_name(name), path));
  }
  return {};
}

Result<> LocalBackend::download(const std::string& session, const std::string& src, int fd) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return fail(Errc::not_found, fmt::format("Sandbox not found: {}", session));
  const auto workspace = found->second.directory / "workspace";
  auto wanted = src;
  if (wanted == kInside || wanted.starts_with("/workspace/"))
    wanted = workspace.string() + wanted.substr(kInside.size());
  const auto path = sanitized(wanted, found->second.directory);
  // No link on the way: where one leads was decided by code nobody has read.
  const auto there =
      files::open_beneath(found->second.fd.get(), path.lexically_relative(found->second.directory).string(), O_PATH);
  if (!there) return fail(Errc::not_found, fmt::format("Path not found: {}", src));
  return files::pack(path, fd, {});
}

Result<> LocalBackend::touch(const std::string& session) {
  COVE_CHECK(ensure(session));
  return {};
}

Result<> LocalBackend::remove(const std::string& session) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return fail(Errc::not_found, fmt::format("Sandbox not found: {}", session));
  const auto directory = found->second.directory;
  sessions_.erase(found);
  COVE_TRY(const auto base, open_at(AT_FDCWD, base_.string(), O_RDONLY | O_DIRECTORY));
  return files::remove_tree(base.get(), directory.filename().string());
}

}  // namespace cove::cli::noxrc
