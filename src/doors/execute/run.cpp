#include "doors/execute/run.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "async/deadline.hpp"
#include "base/random.hpp"
#include "guest/environment.hpp"
#include "sandbox/files.hpp"

namespace cove::doors::execute {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kOutputChunk = 256U << 10;
constexpr std::uint32_t kProcesses = 64;
constexpr std::size_t kAtOnce = 256;            // questions to the database before others get a turn
constexpr std::size_t kKeptAtOnce = 16;         // files written or removed before that
constexpr std::chrono::seconds kFileTime{120};  // for staging, and for collecting

std::function<bool()> until(std::function<bool()> abandoned) {
  return [abandoned = std::move(abandoned), deadline = Clock::now() + kFileTime] {
    return abandoned() || Clock::now() > deadline;
  };
}

Task<Result<>> send_content(sandbox::StageWriter& into, UniqueFd file, std::uint64_t size) {
  std::string chunk;
  while (size > 0) {
    chunk.resize(static_cast<std::size_t>(std::min<std::uint64_t>(size, kOutputChunk)));
    const auto n = ::read(file.get(), chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) co_return fail(Errc::io, "a kept file is shorter than it was");
    chunk.resize(static_cast<std::size_t>(n));
    size -= static_cast<std::uint64_t>(n);
    const auto written = co_await into.write(chunk);
    if (!written) co_return written;
  }
  co_return Result<>();
}

// Copies files from the sandbox to the store. What the sandbox reports is untrusted.
class Collecting {
 public:
  // At most `most_omitted` files are counted as missing.
  Collecting(Services& services, std::string tenant, std::uint64_t most_omitted)
      : services_(services), tenant_(std::move(tenant)), most_omitted_(most_omitted) {}

  // Fails with the store's errors; a failing sandbox is only recorded.
  Task<Result<>> run(sandbox::SnapshotReader& snapshot) {
    while (true) {
      const auto path = co_await snapshot.next_file();
      if (!path) co_return note(path.error().message);
      if (!*path) {
        outputs.omitted = std::min(snapshot.omitted(), most_omitted_);
        services_.files_omitted += outputs.omitted;
        co_return outputs.omitted == 0 ? Result<>() : note(fmt::format("files were left out: {}", outputs.omitted));
      }
      auto draft = services_.files.begin(tenant_);
      if (!draft) co_return tl::unexpected<Error>(draft.error());
      auto taken = co_await take_content(snapshot, *draft);
      if (!taken) co_return tl::unexpected<Error>(taken.error());
      if (!*taken) co_return Result<>();
      auto kept = services_.files.keep(std::move(*draft), **path);
      if (!kept) co_return tl::unexpected<Error>(kept.error());
      outputs.files.push_back({.path = **path, .id = kept->id});
      if (outputs.files.size() % kKeptAtOnce == 0) co_await async::sleep_for(milliseconds(0));  // others first
    }
  }

  Outputs outputs;

 private:
  Result<> note(std::string_view why) {
    services_.log(fmt::format("outputs incomplete reason=\"{}\"", why));
    return {};
  }

  // False: the sandbox failed during the copy.
  Task<Result<bool>> take_content(sandbox::SnapshotReader& snapshot, store::FileStore::Draft& draft) {
    while (true) {
      const auto bytes = co_await snapshot.next_bytes();
      if (!bytes) {
        static_cast<void>(note(bytes.error().message).has_value());
        co_return false;
      }
      if (bytes->empty()) co_return true;
      if (auto written = draft.append(*bytes); !written) co_return tl::unexpected<Error>(written.error());
    }
  }

  Services& services_;
  std::string tenant_;
  std::uint64_t most_omitted_;
};

}  // namespace

Task<Or<std::vector<Input>>> find_inputs(Services& services, std::string tenant, std::vector<FileReference> files,
                                         Entrypoint entrypoint) {
  using Refused = tl::unexpected<http::Response>;
  std::vector<Input> inputs;
  for (const auto& file : files) {
    auto row = services.files.find(tenant, file.file_id);
    if (!row && row.error().code == Errc::not_found)
      co_return refuse(404, fmt::format("File with ID '{}' not found for path '{}'.", file.file_id, file.path));
    if (!row) co_return Refused(answer_to(row.error(), *services.config()));
    auto pin = services.files.pin(*row);
    inputs.push_back({.path = {}, .file = std::move(*row), .pin = std::move(pin)});
    if (inputs.size() % kAtOnce == 0) co_await async::sleep_for(milliseconds(0));  // others first
  }
  std::map<std::string, std::size_t> last;
  for (std::size_t i = 0; i < files.size(); ++i) {
    auto path = staged_path(files[i].path, entrypoint);
    if (const auto* problems = std::get_if<Problems>(&path)) co_return Refused(wrong(*problems));
    inputs[i].path = std::get<std::string>(std::move(path));
    last[inputs[i].path] = i;
  }
  std::vector<Input> counting;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool counts = last.at(inputs[i].path) == i;
    if (counts) counting.push_back(std::move(inputs[i]));
  }
  co_return counting;
}

jail::Limits limits_of(const config::Config& config) {
  return {.memory_bytes = config.execute.memory_bytes,
          .disk_bytes = sandbox::most_disk_bytes(config.execute.memory_bytes),
          .inodes = config.sandbox.inodes,
          .pids = kProcesses,
          .cpu_millis = config.sandbox.cpu_millis};
}

std::vector<std::string> environment() {
  std::string path;
  for (const auto& variable : guest::base_environment()) {
    if (variable.starts_with("PATH=")) path = variable.substr(5);
  }
  return {"PYTHONUNBUFFERED=1",
          "PYTHONDONTWRITEBYTECODE=1",
          "PYTHONIOENCODING=utf-8",
          "MPLCONFIGDIR=/tmp/matplotlib",
          "VIRTUAL_ENV=/opt/executor-venv",
          "PATH=/opt/executor-venv/bin:" + path,
          "LANG=C.UTF-8"};
}

Task<Result<>> stage(Services& services, std::shared_ptr<sandbox::Sandbox> sandbox, const std::vector<Input>& inputs,
                     std::function<bool()> abandoned) {
  if (inputs.empty()) co_return Result<>();
  const sandbox::SandboxFiles files(std::move(sandbox), until(std::move(abandoned)));
  COVE_CO_TRY(auto staging, co_await files.stage());
  for (const auto& input : inputs) {
    COVE_CO_TRY(auto file, services.files.open(input.file));
    auto sent = co_await staging.begin(input.path, input.file.size_bytes);
    if (sent) sent = co_await send_content(staging, std::move(file), input.file.size_bytes);
    if (!sent && sent.error().code != Errc::conflict) co_return sent;
    if (!sent) break;  // it has found fault already; finish() says which
  }
  const auto done = co_await staging.finish();
  if (done) co_return Result<>();
  auto error = done.error();
  // The sandbox's disk is full, not the host's.
  if (error.code == Errc::over_limit)
    error = {.code = Errc::over_limit, .message = "The files do not fit into the sandbox"};
  co_return tl::unexpected<Error>(std::move(error));
}

Task<Result<Outputs>> collect(Services& services, std::shared_ptr<sandbox::Sandbox> sandbox, sandbox::ProcessEnd end,
                              std::string tenant, const std::vector<Input>& inputs, std::function<bool()> abandoned) {
  // Init checks at the end of a program: most write no file.
  if (inputs.empty() && end.made == 0) co_return Outputs();
  // Remaining processes could change the files while they are read; they end with the run anyway.
  sandbox->kill_everything();
  const sandbox::SnapshotLimits limits{.bytes = sandbox->row().disk_bytes, .files = services.config()->files.run_count};
  const auto most_omitted = sandbox->row().inodes;
  std::vector<sandbox::KnownFile> known;
  for (const auto& input : inputs) known.push_back({.sha256 = input.file.sha256, .path = input.path});
  const sandbox::SandboxFiles files(std::move(sandbox), until(std::move(abandoned)));
  auto snapshot = co_await files.snapshot(std::move(known), limits);
  if (!snapshot) {
    services.log(fmt::format("outputs lost reason=\"{}\"", snapshot.error().message));
    co_return Outputs();
  }
  Collecting collecting(services, tenant, most_omitted);
  const auto done = co_await collecting.run(*snapshot);
  if (!done) {
    // All or nothing: a partial result is not reported.
    co_await forget(services, tenant, std::move(collecting.outputs.files));
    co_return tl::unexpected<Error>(done.error());
  }
  co_return std::move(collecting.outputs);
}

Task<> forget(Services& services, std::string tenant, std::vector<OutputFile> files) {
  std::size_t gone = 0;
  for (const auto& file : files) {
    static_cast<void>(services.files.remove(tenant, file.id).has_value());
    if (++gone % kKeptAtOnce == 0) co_await async::sleep_for(milliseconds(0));  // others first
  }
}

std::string to_json(const Outputs& outputs) {
  std::string out;
  for (const auto& file : outputs.files) {
    if (!out.empty()) out += ',';
    out += fmt::format(R"({{"path":{},"kind":"file","file_id":"{}"}})", json_text(file.path), file.id);
  }
  out = fmt::format(R"("files":[{}])", out);
  if (outputs.omitted > 0) out += fmt::format(R"(,"files_omitted":{})", outputs.omitted);
  return out;
}

}  // namespace cove::doors::execute
