#include "doors/mcp/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "doors/mcp/es_module.hpp"
#include "doors/mcp/recent_outputs.hpp"
#include "doors/mcp/runners.hpp"
#include "mcp/envelope.hpp"

namespace cove::doors::mcp {
namespace {

using cove::mcp::Call;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kScanTime{10};  // to find the files that a run wrote

bool is_module(const RunRequest& request) {
  return request.language.name == "javascript" && (request.filename.ends_with(".mjs") || is_es_module(request.code));
}

// Shell scripts are programs here: what they change ends with them, as this API's clients know it.
std::optional<sandbox::KernelLanguage> kernel_for(std::string_view language) {
  const auto found = sandbox::find_kernel_language(language);
  return found == sandbox::KernelLanguage::bash ? std::nullopt : found;
}

std::optional<sandbox::KernelLanguage> interpreter_for(const RunRequest& request) {
  if (request.input || !request.arguments.empty() || !request.variables.empty() || is_module(request)) return {};
  return kernel_for(request.language.name);
}

// The path of code that is not kept: in the same directory, so that it finds the same files, under a hidden name, so
// that it replaces no kept file.
std::string temporary_name(const RunRequest& request) {
  const auto extension = is_module(request) ? std::string(".mjs") : request.language.extensions.front();
  const auto name = request.filename.empty() ? "main" + extension : request.filename;
  const auto base = name.rfind('/') == std::string::npos ? 0 : name.rfind('/') + 1;
  return name.substr(0, base) + "." + name.substr(base);
}

// Images that are too large for an answer become files.
Task<Result<>> keep_images(Session& session, std::vector<Image> images, RunRecord& record) {
  if (images.empty()) co_return Result<>();
  std::vector<sandbox::NewFile> files;
  const auto id = new_output_id().substr(0, 8);
  for (const auto& image : images) {
    const auto* extension = image.mime == "image/png" ? "png" : image.mime == "image/jpeg" ? "jpg" : "svg";
    files.push_back({.path = fmt::format("image-{}-{}.{}", id, files.size() + 1, extension),
                     .content = from_base64(image.base64, Padding::optional).value_or("")});
    record.files.push_back({.path = files.back().path, .size = files.back().content.size(), .created = true});
  }
  const sandbox::SandboxFiles sandbox_files(session.sandbox,
                                            [until = Clock::now() + kScanTime] { return Clock::now() > until; });
  const auto written = co_await sandbox_files.put(std::move(files));
  if (!written) co_return tl::unexpected<Error>(written.error());
  co_return Result<>();
}

}  // namespace

std::vector<std::string> trace_variables(const Call& call) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kNames{
      {{"traceparent", "TRACEPARENT"}, {"tracestate", "TRACESTATE"}, {"baggage", "BAGGAGE"}}};
  constexpr std::size_t kLongestTrace = 8192;
  std::vector<std::string> out;
  const auto* meta = cove::mcp::meta_of(call.params);
  for (const auto& [name, variable] : kNames) {
    const auto* value = meta != nullptr ? meta->if_contains(name) : nullptr;
    if (value == nullptr || !value->is_string() || value->as_string().size() > kLongestTrace) continue;
    const std::string_view text = value->as_string();
    if (std::ranges::all_of(text, [](char c) { return c >= ' ' && c < 0x7f; }))
      out.push_back(fmt::format("{}={}", variable, text));
  }
  return out;
}

bool keeps_state(const config::Language& language) {
  return kernel_for(language.name).has_value();
}

Task<Result<RunRecord>> run(Services& services, Call& call, Session& session, RunRequest request) {
  const auto language = interpreter_for(request);
  const auto path = request.save ? request.filename : temporary_name(request);
  auto files = std::move(request.files);
  if (request.save || !language) files.push_back({.path = path, .content = request.code});
  // Files reported for the previous run are not reported again, though their times may be as late as this run's start.
  sandbox::ChangesWanted wanted{.known = *session.last_written};
  if (!request.save && !language) wanted.remove = path;
  if (!files.empty()) {
    const sandbox::SandboxFiles sandbox_files(session.sandbox, [&call] { return call.cancelled(); });
    const auto written = co_await sandbox_files.put(std::move(files));
    if (!written) co_return tl::unexpected<Error>(written.error());
    for (const auto& [name, mark] : *written) wanted.known[name] = mark;
  }
  wanted.since_ns = sandbox::files_clock();

  Result<RunOutcome> outcome = fail(Errc::io, "");
  if (language)
    outcome = co_await run_live(services, call, session, *language, std::move(request));
  else
    outcome = co_await run_program(services, call, session, std::move(request), path);
  if (!outcome) co_return tl::unexpected<Error>(outcome.error());
  auto record = std::move(outcome->record);
  if (auto kept = co_await keep_images(session, std::move(outcome->large_images), record); !kept)
    record.notes.push_back("images too large for an answer could not be saved: " + kept.error().message);
  if (!outcome->touched) co_return record;
  const sandbox::SandboxFiles sandbox_files(session.sandbox,
                                            [until = Clock::now() + kScanTime] { return Clock::now() > until; });
  auto changes = co_await sandbox_files.changes(std::move(wanted));
  if (!changes) {
    record.notes.push_back("the files that the run wrote could not be listed: " + changes.error().message);
    co_return record;
  }
  session.last_written->clear();
  for (auto& file : changes->files) {
    session.last_written->emplace(file.path, file.mark);
    if (file.path == path) continue;  // the source file is not output
    if (std::ranges::find(record.files, file.path, &sandbox::ChangedFile::path) == record.files.end())
      record.files.push_back(std::move(file));
  }
  record.more_files = changes->more;
  co_return record;
}

}  // namespace cove::doors::mcp
