#include "cli/noxrc/noxrc_command.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/io.hpp"
#include "cli/client/archive_pipe.hpp"
#include "cli/console.hpp"
#include "cli/interrupt.hpp"
#include "cli/noxrc/local_backend.hpp"
#include "cli/noxrc/options.hpp"
#include "cli/noxrc/remote_backend.hpp"
#include "cli/noxrc/shell.hpp"
#include "cli/noxrc/voice.hpp"
#include "files/unpack.hpp"

namespace cove::cli {
namespace noxrc {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDefaultUrl = "http://127.0.0.1:8080";

class Noxrc {
 public:
  Noxrc(const Invocation& invocation, Backend& backend, Interrupt& interrupt, const Voice& voice)
      : line_(invocation), backend_(backend), interrupt_(interrupt), voice_(voice) {}

  int run() {
    const auto status = dispatch();
    if (status) return *status;
    if (client::interrupted(status.error())) {
      voice_.bad("Interrupted by user");
      return 130;
    }
    voice_.bad("Unexpected error: " + status.error().message);
    if (line_.verbose)
      tell("{}: kind {}, errno {}", line_.command, static_cast<int>(status.error().code), status.error().sys_errno);
    return 1;
  }

 private:
  Result<int> dispatch() {
    if (line_.command == "health") return health();
    if (line_.command == "create") return create();
    if (line_.command == "exec") return exec();
    if (line_.command == "upload") return upload();
    if (line_.command == "download") return download();
    if (line_.command == "touch")
      return report(voice_, backend_.touch(line_.session), "TTL extended", "Failed to extend TTL");
    if (line_.command == "delete")
      return report(voice_, backend_.remove(line_.session), "Sandbox deleted", "Failed to delete sandbox");
    return Shell(line_, backend_, interrupt_.fd(), voice_).run();
  }

  Result<int> health() {
    COVE_TRY(const bool well, backend_.healthy());
    if (well)
      voice_.good("Manager is healthy");
    else
      voice_.bad("Manager is not healthy");
    return well ? 0 : 1;
  }

  Result<int> create() {
    const CreateRequest request{.ttl_seconds = line_.number("--ttl"),
                                .image = line_.value("--image"),
                                .cpu = line_.value("--cpu"),
                                .memory = line_.value("--mem"),
                                .storage = line_.value("--storage")};
    const auto pod = backend_.create(line_.session, request);
    if (!pod) return report_failure(voice_, "Failed to create noxrunner", pod.error());
    voice_.good("Sandbox created: " + *pod);
    if (!line_.has("--wait")) return 0;
    voice_.info("Waiting for pod to be ready...");
    const auto ready = backend_.wait_ready(line_.session, line_.number("--wait-timeout"));
    if (!ready) return report_failure(voice_, "Failed to create noxrunner", ready.error());
    if (*ready)
      voice_.good("Pod is ready");
    else
      voice_.warn("Pod did not become ready within timeout");
    return 0;
  }

  Result<int> exec() {
    if (line_.words.empty()) {
      voice_.bad("No command specified");
      return 1;
    }
    ExecRequest request{.command = line_.words,
                        .workdir = line_.value("--workdir"),
                        .timeout_seconds = line_.number("--timeout-seconds")};
    for (const auto& text : line_.environment) {
      const auto equals = text.find('=');
      if (equals == std::string::npos)
        voice_.warn(fmt::format("Invalid env format: {} (expected KEY=VALUE)", text));
      else
        request.environment[text.substr(0, equals)] = text.substr(equals + 1);
    }
    const auto result = backend_.exec(line_.session, request);
    if (!result) return report_failure(voice_, "Execution failed", result.error());
    COVE_CHECK(print(*result));
    return line_.has("--ignore-exit-code") ? 0 : result->exit_code & 0xff;
  }

  Result<int> upload() {
    std::map<std::string, std::string> files;
    std::error_code ec;
    if (line_.has("--dir")) {
      const fs::path root = line_.value("--dir");
      if (!fs::is_directory(root, ec)) {
        voice_.bad("Directory not found: " + root.string());
        return 1;
      }
      for (fs::recursive_directory_iterator it(root, ec), end; !ec && it != end; it.increment(ec)) {
        if (it->is_regular_file(ec)) files[it->path().lexically_relative(root).string()] = it->path().string();
      }
    }
    for (const auto& name : line_.words) {
      if (!fs::exists(name, ec)) {
        voice_.bad("File not found: " + name);
        return 1;
      }
      if (fs::is_directory(name, ec)) {
        voice_.bad(name + " is a directory, use --dir to upload directories");
        return 1;
      }
      files[fs::path(name).filename().string()] = name;
    }
    if (files.empty()) {
      voice_.bad("No files to upload");
      return 1;
    }
    voice_.info(fmt::format("Uploading {} file(s)...", files.size()));
    const auto dest = line_.value("--dest");
    const auto done = backend_.upload(line_.session, files, dest);
    return report(voice_, done, fmt::format("Uploaded {} file(s) to {}", files.size(), dest), "Failed to upload files");
  }

  Result<int> download() {
    voice_.info("Downloading files...");
    const auto failure = [&](const Error& error) { return report_failure(voice_, "Failed to download files", error); };
    const auto src = line_.value("--src");
    if (line_.has("--output") && !line_.value("--output").empty()) {
      const auto path = line_.value("--output");
      auto file = FileInPlace::create(path);
      if (!file) return failure(file.error());
      auto done = backend_.download(line_.session, src, file->fd());
      if (done) done = file->commit();
      return report(voice_, done, "Downloaded to " + path, "Failed to download files");
    }
    const UniqueFd archive(::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (!archive) return failure(fail_errno(errno, "make a temporary file").value());
    if (const auto done = backend_.download(line_.session, src, archive.get()); !done) return failure(done.error());
    ::lseek(archive.get(), 0, SEEK_SET);
    const auto into = line_.value("--extract");
    const files::UnpackLimits limits{.ratio = {.max_ratio = 2000}};
    const auto unpacked = files::unpack(archive.get(), fs::absolute(into).lexically_normal(), limits);
    if (!unpacked) return failure(unpacked.error());
    voice_.good("Extracted to " + into);
    return 0;
  }

  const Invocation& line_;
  Backend& backend_;
  Interrupt& interrupt_;
  const Voice& voice_;
};

Result<std::unique_ptr<Backend>> backend_for(const Invocation& invocation, const Interrupt& interrupt,
                                             const Voice& voice) {
  if (invocation.local)
    return std::make_unique<LocalBackend>(
        [&voice](const std::string& text) { voice.alarm(text); },
        invocation.verbose ? LocalBackend::Warnings::every_command : LocalBackend::Warnings::once);
  const char* named = std::getenv("NOXRUNNER_BASE_URL");
  auto url = invocation.base_url.value_or(named != nullptr ? named : kDefaultUrl);
  if (trimmed(url).empty()) return fail(Errc::invalid, "base_url is required unless --local-test is used");
  COVE_TRY(auto address, client::parse_address(trimmed(url)));
  const char* key = std::getenv("COVE_API_KEY");
  const client::Waiting waiting{.interrupt_fd = interrupt.fd(),
                                .patience = std::chrono::seconds(std::max(1, invocation.timeout))};
  return std::make_unique<RemoteBackend>(
      client::Options{.address = std::move(address), .key = key != nullptr ? key : "", .waiting = waiting});
}

}  // namespace
}  // namespace noxrc

int noxrc_command(Words words) {
  const auto parsed = noxrc::parse(words);
  if (const auto* printout = std::get_if<noxrc::Printout>(&parsed)) {
    [[maybe_unused]] const auto put = write_all(printout->status == 2 ? STDERR_FILENO : STDOUT_FILENO, printout->text);
    return printout->status;
  }
  auto invocation = std::get<noxrc::Invocation>(parsed);
  if (const char* verbose = std::getenv("NOXRUNNER_VERBOSE"); verbose != nullptr && std::string_view(verbose) == "1")
    invocation.verbose = true;
  Interrupt interrupt;
  const noxrc::Voice voice;
  auto backend = noxrc::backend_for(invocation, interrupt, voice);
  if (!backend) {
    voice.bad("Unexpected error: " + backend.error().message);
    return 1;
  }
  return noxrc::Noxrc(invocation, **backend, interrupt, voice).run();
}

}  // namespace cove::cli
