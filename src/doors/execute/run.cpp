#include "doors/execute/run.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "async/deadline.hpp"
#include "base/random.hpp"
#include "sandbox/environment.hpp"
#include "sandbox/helper.hpp"

namespace cove::doors::execute {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kChunk = 256U << 10;
constexpr std::uint32_t kProcesses = 64;
constexpr std::size_t kAtOnce = 256;            // questions to the database before others get a turn
constexpr std::chrono::seconds kFileTime{120};  // for staging, and for collecting
constexpr std::chrono::seconds kRoomTime{3};    // for processes that were killed to be gone

std::function<bool()> until(std::function<bool()> abandoned) {
  return [abandoned = std::move(abandoned), deadline = Clock::now() + kFileTime] {
    return abandoned() || Clock::now() > deadline;
  };
}

Result<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || ec != std::errc() || end != text.data() + text.size())
    return fail(Errc::io, "the sandbox's file helper broke the protocol");
  return value;
}

Task<Result<>> send_content(sandbox::Helper& helper, UniqueFd file, std::uint64_t size) {
  std::string chunk;
  while (size > 0) {
    chunk.resize(static_cast<std::size_t>(std::min<std::uint64_t>(size, kChunk)));
    const auto n = ::read(file.get(), chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) co_return fail(Errc::io, "a kept file is shorter than it was");
    chunk.resize(static_cast<std::size_t>(n));
    size -= static_cast<std::uint64_t>(n);
    const auto written = co_await helper.write(chunk);
    if (!written) co_return written;
  }
  co_return Result<>();
}

// One file after the other from the helper to the store. Nothing it says is believed further than it has to be.
class Collecting {
 public:
  Collecting(Services& services, std::string tenant, std::uint64_t most_bytes, std::uint64_t most_files)
      : services_(services), tenant_(std::move(tenant)), bytes_left_(most_bytes), files_left_(most_files) {}

  // Errc::over_limit and others of the store; a helper that fails is only noted.
  Task<Result<>> run(sandbox::Helper& helper) {
    while (true) {
      const auto line = co_await helper.read_line();
      if (!line) co_return note(line.error().message);
      if (line->starts_with("end ")) {
        if (*line != "end 0") co_return note("files were left out: " + line->substr(4));
        co_return Result<>();
      }
      auto path = fastapi::parse_json(*line);
      const auto* text = std::get_if<Value>(&path);
      if (text == nullptr || text->kind != Value::Kind::text || text->text.empty() || files_left_-- == 0)
        co_return note("the helper broke the protocol");
      auto draft = services_.files.begin();
      if (!draft) co_return tl::unexpected<Error>(draft.error());
      auto taken = co_await take_content(helper, *draft);
      if (!taken) co_return tl::unexpected<Error>(taken.error());
      if (!*taken) co_return Result<>();
      auto kept = services_.files.keep(std::move(*draft), tenant_, text->text);
      if (!kept) co_return tl::unexpected<Error>(kept.error());
      files.push_back({.path = text->text, .id = kept->id});
    }
  }

  std::vector<OutputFile> files;

 private:
  Result<> note(std::string_view why) {
    services_.log(fmt::format("outputs incomplete reason=\"{}\"", why));
    return {};
  }

  // False: the helper failed in the middle.
  Task<Result<bool>> take_content(sandbox::Helper& helper, store::FileStore::Draft& draft) {
    while (true) {
      const auto line = co_await helper.read_line();
      auto left = line ? number(*line) : Result<std::uint64_t>(tl::unexpected<Error>(line.error()));
      if (left && *left == 0) co_return true;
      if (left && *left > bytes_left_) left = fail(Errc::io, "more files than fit into the sandbox");
      if (!left) {
        static_cast<void>(note(left.error().message).has_value());
        co_return false;
      }
      bytes_left_ -= *left;
      while (*left > 0) {
        const auto bytes = co_await helper.read_some(static_cast<std::size_t>(*left));
        if (!bytes) {
          static_cast<void>(note(bytes.error().message).has_value());
          co_return false;
        }
        *left -= bytes->size();
        if (auto written = draft.append(*bytes); !written) co_return tl::unexpected<Error>(written.error());
      }
    }
  }

  Services& services_;
  std::string tenant_;
  std::uint64_t bytes_left_;
  std::uint64_t files_left_;
};

// A program may have left its process limit full; what it left behind is dying.
Task<Result<std::unique_ptr<sandbox::Helper>>> start_when_there_is_room(std::shared_ptr<sandbox::Sandbox> sandbox,
                                                                        std::vector<std::string> arguments,
                                                                        std::function<bool()> abandoned) {
  const auto deadline = Clock::now() + kRoomTime;
  while (true) {
    auto helper = co_await sandbox::Helper::start(sandbox, arguments, abandoned);
    if (helper || helper.error().code != Errc::conflict || Clock::now() > deadline || abandoned()) co_return helper;
    co_await async::sleep_for(milliseconds(10));
  }
}

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

Task<Or<sandbox::Lease>> make_allowance(Services& services, const http::Principal& principal, Operation operation,
                                        WorkplaceOptions options) {
  const auto config = services.config();
  sandbox::CreateRequest request;
  request.tenant = principal.tenant;
  request.name = std::move(options.name);
  request.purpose = options.purpose;
  request.python = config->python.warm && options.purpose == sandbox::Purpose::throwaway;
  request.limits = limits_of(*config);
  if (options.ttl.count() > 0) {
    request.ttl = options.ttl;
    request.renewal = "none";
    std::string variables;
    for (const auto& variable : environment()) {
      const auto equals = variable.find('=');
      variables += fmt::format("{}{}:{}", variables.empty() ? "" : ",", json_text(variable.substr(0, equals)),
                               json_text(variable.substr(equals + 1)));
    }
    request.env_json = "{" + variables + "}";
  }
  const auto quotas = services.quotas(principal);
  const sandbox::Quotas share{.sandboxes = quotas.max_sandboxes, .memory_bytes = quotas.max_memory_bytes};
  auto made = co_await services.registry.ensure(std::move(request), share, sandbox::IfThere::refuse);
  if (made) co_return sandbox::Lease(services.registry, made->sandbox);
  const auto& error = made.error();
  const bool full = error.code == Errc::quota;
  if (!full && error.code != Errc::unavailable && error.code != Errc::over_limit)
    co_return refuse(500, fmt::format("The executor could not start: {}", error.message));
  const std::string_view reason = full ? "quota_exceeded" : "unschedulable";
  services.meter.rejected(operation, 503, reason);
  const auto sentence = fmt::format("Executor capacity unavailable ({}): {}", reason, error.message);
  co_return tl::unexpected<http::Response>(later(detail(503, sentence), config->execute.capacity_retry_after));
}

std::vector<std::string> environment() {
  std::string path;
  for (const auto& variable : sandbox::base_environment()) {
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
  std::vector<std::string> arguments{"stage", "/workspace"};
  auto helper = co_await sandbox::Helper::start(std::move(sandbox), std::move(arguments), until(std::move(abandoned)));
  if (!helper) co_return tl::unexpected<Error>(helper.error());
  bool taking = true;
  for (const auto& input : inputs) {
    auto file = services.files.open(input.file);
    if (!file) co_return tl::unexpected<Error>(file.error());
    auto head = fmt::format("{} {}\n{}", input.file.size_bytes, input.path.size(), input.path);
    auto sent = co_await (*helper)->write(std::move(head));
    if (sent) sent = co_await send_content(**helper, std::move(*file), input.file.size_bytes);
    if (!sent && sent.error().code != Errc::conflict) co_return sent;
    taking = sent.has_value();
    if (!taking) break;  // it has found fault already; finish() says which
  }
  if (taking) taking = (co_await (*helper)->write("end\n")).has_value();
  (*helper)->end_input();
  const auto done = co_await (*helper)->finish();
  if (done) co_return Result<>();
  auto error = done.error();
  // Of the sandbox's own disk, not of ours.
  if (error.code == Errc::over_limit)
    error = {.code = Errc::over_limit, .message = "The files do not fit into the sandbox"};
  co_return tl::unexpected<Error>(std::move(error));
}

Task<Result<std::vector<OutputFile>>> collect(Services& services, std::shared_ptr<sandbox::Sandbox> sandbox,
                                              sandbox::ProcessEnd end, std::string tenant,
                                              const std::vector<Input>& inputs, std::function<bool()> abandoned) {
  // Init looked when the program ended: most make nothing.
  if (inputs.empty() && end.made == 0) co_return std::vector<OutputFile>();
  // What still runs would change what is read, and is over anyway.
  sandbox->kill_everything();
  const auto most = sandbox->row().disk_bytes;
  std::vector<std::string> arguments{"snapshot", "/workspace", "--max-bytes", std::to_string(most)};
  const auto inodes = sandbox->row().inodes;
  auto helper =
      co_await start_when_there_is_room(std::move(sandbox), std::move(arguments), until(std::move(abandoned)));
  if (!helper) {
    services.log(fmt::format("outputs lost reason=\"{}\"", helper.error().message));
    co_return std::vector<OutputFile>();
  }
  std::string known;
  for (const auto& input : inputs) known += fmt::format("{} {}\n{}", input.file.sha256, input.path.size(), input.path);
  known += "end\n";
  // One that takes no more has failed, which is seen below.
  if (co_await (*helper)->write(std::move(known))) (*helper)->end_input();
  Collecting collecting(services, tenant, most, inodes);
  const auto done = co_await collecting.run(**helper);
  if (!done) {
    // Half of them are of no use: nobody is told of any.
    for (const auto& file : collecting.files) static_cast<void>(services.files.remove(tenant, file.id).has_value());
    co_return tl::unexpected<Error>(done.error());
  }
  co_return std::move(collecting.files);
}

std::string to_json(const std::vector<OutputFile>& files) {
  std::string out = "[";
  for (const auto& file : files) {
    if (out.size() > 1) out += ',';
    out += fmt::format(R"({{"path":{},"kind":"file","file_id":"{}"}})", json_text(file.path), file.id);
  }
  return out + "]";
}

}  // namespace cove::doors::execute
