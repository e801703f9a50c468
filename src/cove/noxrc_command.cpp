#include "cove/noxrc_command.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>

#include "base/io.hpp"
#include "client/tar_gz.hpp"
#include "cove/archive_pipe.hpp"
#include "cove/console.hpp"
#include "cove/interrupt.hpp"
#include "cove/noxrc_local.hpp"
#include "cove/noxrc_options.hpp"
#include "cove/noxrc_rules.hpp"
#include "files/unpack.hpp"

namespace cove::cli {
namespace noxrc {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr const char* kDefaultUrl = "http://127.0.0.1:8080";

// Marks and colours. Colours when standard output is a terminal, for both streams.
class Voice {
 public:
  void good(std::string_view text) const { say(STDOUT_FILENO, "32", "✓ ", text); }
  void info(std::string_view text) const { say(STDOUT_FILENO, "34", "ℹ ", text); }
  void warn(std::string_view text) const { say(STDOUT_FILENO, "33", "⚠ ", text); }
  void bad(std::string_view text) const { say(STDERR_FILENO, "31", "✗ ", text); }
  void alarm(std::string_view text) const { say(STDERR_FILENO, "31", "", text); }
  [[nodiscard]] std::string coloured(std::string_view colour, std::string_view text) const {
    return colours_ ? fmt::format("\x1b[{}m{}\x1b[0m", colour, text) : std::string(text);
  }

 private:
  void say(int fd, std::string_view colour, std::string_view mark, std::string_view text) const {
    [[maybe_unused]] const auto written = write_all(fd, coloured(colour, fmt::format("{}{}", mark, text)) + "\n");
  }
  bool colours_ = ::isatty(STDOUT_FILENO) == 1;
};

// An id goes into the address as the NoxRunner client puts it there: a caller's own %2F is left alone.
std::string session_target(const std::string& session, std::string_view below) {
  std::string id;
  for (const char c : session) id += c == '%' ? std::string("%") : client::encoded(std::string_view(&c, 1));
  return fmt::format("/v1/sandboxes/{}{}", id, below);
}

// A server, by the seven requests every NoxRunner server answers.
class RemoteBackend : public Backend {
 public:
  explicit RemoteBackend(client::Options options) : client_(std::move(options)) {}

  Result<bool> healthy() override {
    const auto answer = client_.send({.target = "/healthz"});
    if (!answer && client::interrupted(answer.error())) return tl::unexpected<Error>(answer.error());
    return answer && answer->status == 200 && answer->body.find("OK") != std::string::npos;
  }

  Result<std::string> create(const std::string& session, const CreateRequest& request) override {
    json::object body{{"ttlSeconds", request.ttl_seconds}};
    const auto add = [&](const char* name, const std::string& value) {
      if (!value.empty()) body[name] = value;
    };
    add("image", request.image);
    add("cpuLimit", request.cpu);
    add("memoryLimit", request.memory);
    add("ephemeralStorageLimit", request.storage);
    COVE_TRY(const auto answer, ask(json_request("PUT", session_target(session, ""), body)));
    COVE_TRY(const auto sandbox, object(answer));
    return text_of(sandbox, "podName");
  }

  Result<bool> wait_ready(const std::string& session, int timeout_seconds) override {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(timeout_seconds);
    while (std::chrono::steady_clock::now() < until) {
      const auto probe = exec(session, {.command = {"echo", "ready"}, .timeout_seconds = 5});
      if (probe && (probe->out == "ready\n" || probe->out == "ready")) return true;
      if (!probe && client::interrupted(probe.error())) return tl::unexpected<Error>(probe.error());
      pollfd signal{.fd = client_.options().waiting.interrupt_fd, .events = POLLIN, .revents = 0};
      ::poll(&signal, 1, 2000);
    }
    return false;
  }

  Result<ExecResult> exec(const std::string& session, const ExecRequest& request) override {
    json::object body{{"cmd", json::value_from(request.command)},
                      {"workdir", request.workdir},
                      {"timeoutSeconds", request.timeout_seconds}};
    if (!request.environment.empty()) body["env"] = request.environment;
    COVE_TRY(const auto answer, ask(json_request("POST", session_target(session, "/exec"), body)));
    COVE_TRY(const auto result, object(answer));
    return ExecResult{.exit_code = static_cast<int>(number_of(result, "exitCode")),
                      .out = text_of(result, "stdout"),
                      .err = text_of(result, "stderr")};
  }

  Result<> upload(const std::string& session, const std::map<std::string, std::string>& files,
                  const std::string& dest) override {
    UniqueFd archive(::memfd_create("upload", MFD_CLOEXEC));
    if (!archive) return fail_errno(errno, "memfd_create");
    COVE_TRY(auto tar, client::TarGz::to(archive.get()));
    for (const auto& [name, path] : files) {
      COVE_TRY(const auto fd, open_at(AT_FDCWD, path, O_RDONLY));
      std::error_code ec;
      COVE_CHECK(tar.add(name, fd.get(), fs::file_size(path, ec)));
    }
    COVE_CHECK(tar.finish());
    const auto size = ::lseek(archive.get(), 0, SEEK_END);
    ::lseek(archive.get(), 0, SEEK_SET);
    const client::Upload body{.source = [&](std::span<char> room) -> Result<std::size_t> {
                                const auto n = ::read(archive.get(), room.data(), room.size());
                                if (n < 0) return fail_errno(errno, "read the archive");
                                return static_cast<std::size_t>(n);
                              },
                              .size = static_cast<std::uint64_t>(size)};
    const auto target = client::Target(session_target(session, "/files/upload")).with("dest", dest).text();
    COVE_CHECK(ask({.method = "POST", .target = target, .content_type = "application/x-tar"}, &body));
    return {};
  }

  Result<> download(const std::string& session, const std::string& src, int fd) override {
    const client::Download take{.begin = [](auto) { return Result<>(); },
                                .take = [fd](std::string_view bytes) { return write_all(fd, bytes); }};
    const auto target = client::Target(session_target(session, "/files/download")).with("src", src).text();
    COVE_CHECK(ask({.target = target}, nullptr, &take));
    return {};
  }

  Result<> touch(const std::string& session) override {
    COVE_CHECK(ask({.method = "POST", .target = session_target(session, "/touch")}));
    return {};
  }

  Result<> remove(const std::string& session) override {
    COVE_CHECK(ask({.method = "DELETE", .target = session_target(session, "")}));
    return {};
  }

 private:
  // Failures in the words of the NoxRunner client.
  Result<client::Response> ask(const client::Request& request, const client::Upload* upload = nullptr,
                               const client::Download* download = nullptr) {
    auto answer = client_.send(request, upload, download);
    if (!answer && client::interrupted(answer.error())) return answer;
    if (!answer && answer.error().sys_errno == ETIMEDOUT) return fail(Errc::unavailable, "Unexpected error: timed out");
    if (!answer) return fail(Errc::unavailable, "Network error: " + answer.error().message);
    if (answer->status < 300) return answer;
    auto text = fmt::format("HTTP {}: HTTP Error {}: {}", answer->status, answer->status, answer->reason);
    if (!answer->body.empty()) text += "\nResponse: " + answer->body;
    return fail(Errc::io, text);
  }

  static Result<json::object> object(const client::Response& answer) {
    if (answer.body.empty()) return json::object();
    auto parsed = object_of(answer.body);
    if (!parsed) return fail(Errc::io, "Invalid JSON response: " + answer.body.substr(0, 200));
    return parsed;
  }

  client::Client client_;
};

// A line at a time from standard input, unless a signal comes first.
class LineReader {
 public:
  explicit LineReader(int interrupt_fd) : interrupt_fd_(interrupt_fd) {}
  std::optional<std::string> next() {
    while (true) {
      if (const auto end = held_.find('\n'); end != std::string::npos) {
        auto line = held_.substr(0, end);
        held_.erase(0, end + 1);
        return line;
      }
      std::array<pollfd, 2> polls{{{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                                   {.fd = interrupt_fd_, .events = POLLIN, .revents = 0}}};
      if (::poll(polls.data(), polls.size(), -1) < 0 && errno != EINTR) return std::nullopt;
      if (polls[1].revents != 0) return std::nullopt;
      std::array<char, 4096> chunk;
      const auto n = polls[0].revents == 0 ? -1 : ::read(STDIN_FILENO, chunk.data(), chunk.size());
      if (n == 0) {
        if (held_.empty()) return std::nullopt;
        return std::exchange(held_, {});
      }
      if (n > 0) held_.append(chunk.data(), static_cast<std::size_t>(n));
    }
  }

 private:
  int interrupt_fd_;
  std::string held_;
};

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

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
    if (line_.command == "touch") return simple(backend_.touch(line_.session), "TTL extended", "Failed to extend TTL");
    if (line_.command == "delete")
      return simple(backend_.remove(line_.session), "Sandbox deleted", "Failed to delete sandbox");
    return shell();
  }

  // A failure in its own words; Ctrl-C is told once, at the top.
  Result<int> failed(std::string_view what, const Error& error) {
    if (client::interrupted(error)) return tl::unexpected<Error>(error);
    voice_.bad(fmt::format("{}: {}", what, error.message));
    return 1;
  }

  Result<int> simple(const Result<>& done, std::string_view good, std::string_view bad) {
    if (!done) return failed(bad, done.error());
    voice_.good(good);
    return 0;
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
    if (!pod) return failed("Failed to create noxrunner", pod.error());
    voice_.good("Sandbox created: " + *pod);
    if (!line_.has("--wait")) return 0;
    voice_.info("Waiting for pod to be ready...");
    const auto ready = backend_.wait_ready(line_.session, line_.number("--wait-timeout"));
    if (!ready) return failed("Failed to create noxrunner", ready.error());
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
    if (!result) return failed("Execution failed", result.error());
    COVE_CHECK(print(*result));
    return line_.has("--ignore-exit-code") ? 0 : result->exit_code & 0xff;
  }

  static Result<> print(const ExecResult& result) {
    COVE_CHECK(write_all(STDOUT_FILENO, result.out));
    return write_all(STDERR_FILENO, result.err);
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
    return simple(done, fmt::format("Uploaded {} file(s) to {}", files.size(), dest), "Failed to upload files");
  }

  Result<int> download() {
    voice_.info("Downloading files...");
    const auto failure = [&](const Error& error) { return failed("Failed to download files", error); };
    const auto src = line_.value("--src");
    if (line_.has("--output") && !line_.value("--output").empty()) {
      const auto path = line_.value("--output");
      auto file = FileInPlace::create(path);
      if (!file) return failure(file.error());
      auto done = backend_.download(line_.session, src, file->fd());
      if (done) done = file->commit();
      return simple(done, "Downloaded to " + path, "Failed to download files");
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

  Result<int> shell() {
    directory_ = line_.value("--workdir");
    voice_.info("NoxRunner shell: " + line_.session);
    voice_.info("Type 'help' for the words of this shell, 'exit' or 'quit' to leave");
    voice_.info("Every line is a command of its own: variables do not last, files and cd do");
    COVE_CHECK(write_all(STDOUT_FILENO, "\n"));
    LineReader lines(interrupt_.fd());
    while (true) {
      COVE_CHECK(
          write_all(STDOUT_FILENO, voice_.coloured("36", fmt::format("noxrunner:{}:{}$ ", line_.session, directory_))));
      const auto line = lines.next();
      if (!line) {
        COVE_CHECK(write_all(STDOUT_FILENO, "\n"));
        return 0;
      }
      const auto text = trimmed(*line);
      if (text == "exit" || text == "quit") return 0;
      COVE_CHECK(one_line(text));
    }
  }

  Result<> one_line(const std::string& text) {
    if (text.empty()) return {};
    if (text == "help") {
      return write_all(STDOUT_FILENO,
                       "  cd [DIR]      change the directory (cd and cd ~: /workspace)\n"
                       "  pwd           show the directory\n"
                       "  touch         let the sandbox live on\n"
                       "  help          show this\n"
                       "  exit, quit    leave\n"
                       "  anything else is run by sh in the sandbox\n");
    }
    if (text == "touch") {
      const auto done = backend_.touch(line_.session);
      if (!done && client::interrupted(done.error())) return tl::unexpected<Error>(done.error());
      COVE_CHECK(simple(done, "TTL extended", "Failed to extend TTL"));
      return {};
    }
    if (text == "pwd") return write_all(STDOUT_FILENO, directory_ + "\n");
    const bool plain = text.find("&&") == std::string::npos && text.find_first_of(";|") == std::string::npos;
    if (plain && (text == "cd" || text.starts_with("cd "))) return change_directory(trimmed(text.substr(2)));
    const auto result = backend_.exec(
        line_.session,
        {.command = {"sh", "-c", text}, .workdir = directory_, .timeout_seconds = line_.number("--timeout-seconds")});
    if (!result) {
      COVE_CHECK(failed("Execution failed", result.error()));
      return {};
    }
    COVE_CHECK(print(*result));
    if (result->exit_code != 0) voice_.warn(fmt::format("Command exited with code {}", result->exit_code));
    return {};
  }

  Result<> change_directory(const std::string& target) {
    if (target.empty() || target == "~") {
      directory_ = "/workspace";
      return {};
    }
    if (target == "-") {
      voice_.warn("cd - is not supported");
      return {};
    }
    const auto wanted = changed_directory(directory_, target);
    const auto there = backend_.exec(
        line_.session, {.command = {"sh", "-c", fmt::format("test -d {} && echo EXISTS", shell_word(wanted))},
                        .workdir = "/",
                        .timeout_seconds = 5});
    if (!there && client::interrupted(there.error())) return tl::unexpected<Error>(there.error());
    if (there && there->out.find("EXISTS") != std::string::npos)
      directory_ = wanted;
    else
      voice_.bad(fmt::format("cd: {}: No such directory", target));
    return {};
  }

  const Invocation& line_;
  Backend& backend_;
  Interrupt& interrupt_;
  const Voice& voice_;
  std::string directory_;
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

std::optional<Words> noxrc_words(int argc, char** argv) {
  const std::vector<std::string> all(argv, argv + argc);
  if (argc > 0 && std::filesystem::path(all[0]).filename() == "noxrc") return Words(all.begin() + 1, all.end());
  if (argc > 1 && all[1] == "noxrc") return Words(all.begin() + 2, all.end());
  return std::nullopt;
}

int noxrc_command(const Words& words) {
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
