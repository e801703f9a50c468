#include "cli/noxrc/remote_backend.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "base/io.hpp"
#include "client/tar_gz.hpp"

namespace cove::cli::noxrc {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

// An id goes into the address as the NoxRunner client puts it there: a caller's own %2F is left alone.
std::string session_target(const std::string& session, std::string_view below) {
  std::string id;
  for (const char c : session) id += c == '%' ? std::string("%") : client::encoded(std::string_view(&c, 1));
  return fmt::format("/v1/sandboxes/{}{}", id, below);
}

Result<json::object> object(const client::Response& answer) {
  if (answer.body.empty()) return json::object();
  auto parsed = object_of(answer.body);
  if (!parsed) return fail(Errc::io, "Invalid JSON response: " + answer.body.substr(0, 200));
  return parsed;
}

}  // namespace

Result<bool> RemoteBackend::healthy() {
  const auto answer = client_.send({.target = "/healthz"});
  if (!answer && client::interrupted(answer.error())) return tl::unexpected<Error>(answer.error());
  return answer && answer->status == 200 && answer->body.find("OK") != std::string::npos;
}

Result<std::string> RemoteBackend::create(const std::string& session, const CreateRequest& request) {
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

Result<bool> RemoteBackend::wait_ready(const std::string& session, int timeout_seconds) {
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

Result<ExecResult> RemoteBackend::exec(const std::string& session, const ExecRequest& request) {
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

Result<> RemoteBackend::upload(const std::string& session, const std::map<std::string, std::string>& files,
                               const std::string& dest) {
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

Result<> RemoteBackend::download(const std::string& session, const std::string& src, int fd) {
  const client::Download take{.begin = [](auto) { return Result<>(); },
                              .take = [fd](std::string_view bytes) { return write_all(fd, bytes); }};
  const auto target = client::Target(session_target(session, "/files/download")).with("src", src).text();
  COVE_CHECK(ask({.target = target}, nullptr, &take));
  return {};
}

Result<> RemoteBackend::touch(const std::string& session) {
  COVE_CHECK(ask({.method = "POST", .target = session_target(session, "/touch")}));
  return {};
}

Result<> RemoteBackend::remove(const std::string& session) {
  COVE_CHECK(ask({.method = "DELETE", .target = session_target(session, "")}));
  return {};
}

Result<client::Response> RemoteBackend::ask(const client::Request& request, const client::Upload* upload,
                                            const client::Download* download) {
  auto answer = client_.send(request, upload, download);
  if (!answer && client::interrupted(answer.error())) return answer;
  if (!answer && answer.error().sys_errno == ETIMEDOUT) return fail(Errc::unavailable, "Unexpected error: timed out");
  if (!answer) return fail(Errc::unavailable, "Network error: " + answer.error().message);
  if (answer->status < 300) return answer;
  auto text = fmt::format("HTTP {}: HTTP Error {}: {}", answer->status, answer->status, answer->reason);
  if (!answer->body.empty()) text += "\nResponse: " + answer->body;
  return fail(Errc::io, text);
}

}  // namespace cove::cli::noxrc
