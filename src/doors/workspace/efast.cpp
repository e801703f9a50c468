#include <algorithm>
#include <array>
#include <charconv>

#include "doors/workspace/answers.hpp"
#include "doors/workspace/efast_grant.hpp"
#include "doors/workspace/efast_store.hpp"
#include "run/workplace.hpp"
#include "sandbox/files.hpp"

namespace cove::doors::workspace {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kAtOnce = 3;
constexpr std::size_t kMaxFiles = 1000;
constexpr std::int64_t kLongest = 3600;          // seconds for one document
constexpr std::uint64_t kGrantLimit = 1U << 20;  // of what the store says of a document
constexpr unsigned kRedirects = 5;
constexpr std::chrono::milliseconds kPollInterval{200};

// The download of several documents into one session. Kept alive by its workers: the caller may be gone.
struct Batch {
  Batch(Services& services, Session session, boost::asio::any_io_executor executor)
      : services(services), session(std::move(session)), changed(executor) {}

  Services& services;
  Session session;
  async::Signal changed;
  EfastStore store;
  std::string directory;  // in the session, "" for its root
  std::string asked_path;
  std::chrono::seconds timeout{0};
  std::vector<DocumentRequest> documents;
  std::vector<std::string> results;  // JSON, one for each
  std::size_t next = 0;
  int working = 0;
  bool left = false;  // the caller has
  std::optional<sandbox::Admission::Ticket> ticket = std::nullopt;

  // The caller is gone, or the session has ended.
  [[nodiscard]] bool abandoned() const {
    const auto state = session.sandbox->state();
    return left || state == sandbox::State::deleting || state == sandbox::State::gone;
  }
};

struct Fetched {
  std::string path;
  std::string name;
  std::string rev;
  std::uint64_t said_size = 0;
  std::uint64_t downloaded = 0;
  std::uint64_t total = 0;
};

// Writes received bytes into the session.
class IntoSession : public outbound::Receiver {
 public:
  IntoSession(std::shared_ptr<Batch> batch, std::string path) : batch_(std::move(batch)), path_(std::move(path)) {}

  Task<Result<>> begin(outbound::Head head) override {
    if (head.status != 200) co_return fail(Errc::unavailable, fmt::format("HTTP {} for the document", head.status));
    const auto length = head.header("Content-Length");
    std::from_chars(length.data(), length.data() + length.size(), total);
    const sandbox::SandboxFiles files(
        batch_->session.sandbox, [batch = batch_] { return batch->abandoned(); }, sandbox::Confined::to_workspace);
    auto started = co_await files.write(sandbox::workspace_path(path_), {});
    if (!started) co_return tl::unexpected<Error>(started.error());
    file_.emplace(std::move(*started));
    co_return Result<>();
  }

  Task<Result<>> take(std::string bytes) override {
    taken += bytes.size();
    auto written = co_await file_->write(std::move(bytes));
    if (written) co_return written;
    const auto why = co_await file_->finish();
    co_return why ? written : Result<>(tl::unexpected<Error>(why.error()));
  }

  Task<Result<>> finish() {
    const auto done = co_await file_->finish();
    if (!done) co_return tl::unexpected<Error>(done.error());
    co_return Result<>();
  }

  std::uint64_t taken = 0;
  std::optional<std::uint64_t> total_size() const { return total == 0 ? std::nullopt : std::optional(total); }

 private:
  std::shared_ptr<Batch> batch_;
  std::string path_;
  std::optional<sandbox::FileWriter> file_;
  std::uint64_t total = 0;
};

Task<Result<EfastGrant>> ask_store(std::shared_ptr<Batch> batch, const DocumentRequest& document,
                                   Clock::time_point until) {
  std::string body = fmt::format(R"({{"docid":{})", json_text(document.docid));
  if (!document.savename.empty()) body += fmt::format(R"(,"savename":{})", json_text(document.savename));
  if (!document.rev.empty()) body += fmt::format(R"(,"rev":{})", json_text(document.rev));
  body += "}";
  outbound::Request request{
      .method = "POST",
      .url = batch->store.url,
      .headers = {{"Content-Type", "application/json"}, {"Authorization", "Bearer " + batch->store.token}},
      .body = std::move(body),
      .reach = batch->store.reach,
      .tenant = batch->session.sandbox->tenant(),
      .until = until,
      .max_body_bytes = kGrantLimit,
      .abandoned = [batch] { return batch->abandoned(); }};
  COVE_CO_TRY(const auto answer, co_await batch->services.outbound.send(std::move(request)));
  if (answer.head.status != 200)
    co_return fail(Errc::unavailable, fmt::format("HTTP {} from the document store", answer.head.status));
  co_return parse_grant(answer.body);
}

Task<Result<Fetched>> fetch(std::shared_ptr<Batch> batch, DocumentRequest document) {
  const auto until = Clock::now() + batch->timeout;
  COVE_CO_TRY(auto grant, co_await ask_store(batch, document, until));
  const auto name = !document.savename.empty() ? document.savename : !grant.name.empty() ? grant.name : "download_file";
  COVE_CO_TRY(const auto path, session_path(batch->directory + "/" + name));
  IntoSession into(batch, path);
  outbound::Request request{.url = std::move(grant.url),
                            .headers = std::move(grant.headers),
                            .reach = batch->store.reach,
                            .tenant = batch->session.sandbox->tenant(),
                            .until = until,
                            .max_body_bytes = batch->session.sandbox->row().disk_bytes,
                            .redirects = kRedirects,
                            .abandoned = [batch] { return batch->abandoned(); }};
  COVE_CO_CHECK(co_await batch->services.outbound.send(std::move(request), into));
  COVE_CO_CHECK(co_await into.finish());
  co_return Fetched{.path = path,
                    .name = name,
                    .rev = std::move(grant.rev),
                    .said_size = grant.size,
                    .downloaded = into.taken,
                    .total = into.total_size().value_or(grant.size)};
}

std::string told(const Result<Fetched>& fetched, const DocumentRequest& document, std::size_t index,
                 const Batch& batch) {
  if (!fetched) {
    constexpr auto kBad =
        R"({{"success":false,"error":{},"docid":{},"save_path":{},"savename":{},"rev":{},"index":{}}})";
    return fmt::format(kBad, json_text(fetched.error().message), json_text(document.docid), json_text(batch.asked_path),
                       json_text(document.savename), json_text(document.rev), index);
  }
  constexpr auto kGood =
      R"({{"success":true,"file_path":{},"file_info":{{"name":{},"size":{},"rev":{}}},"downloaded_size":{},"total_size":{},"index":{},"docid":{},"savename":{}}})";
  return fmt::format(kGood, json_text(fetched->path), json_text(fetched->name), fetched->said_size,
                     json_text(fetched->rev), fetched->downloaded, fetched->total, index, json_text(document.docid),
                     json_text(document.savename));
}

// One of the concurrent workers.
Task<> work(std::shared_ptr<Batch> batch) {
  struct Working {
    Batch& batch;
    ~Working() {
      --batch.working;
      batch.changed.notify_all();
    }
  } const working{*batch};
  while (!batch->abandoned() && batch->next < batch->documents.size()) {
    const auto index = batch->next++;
    const auto fetched = co_await fetch(batch, batch->documents[index]);
    batch->results[index] = told(fetched, batch->documents[index], index, *batch);
  }
}

http::Response failed(std::string_view why) {
  return detail(500, fmt::format("Batch download failed: {}", why));
}

Task<Result<>> make_directory(std::shared_ptr<Batch> batch, const http::Exchange& exchange) {
  if (batch->directory.empty()) co_return Result<>();
  const sandbox::SandboxFiles files(batch->session.sandbox, gone(exchange), sandbox::Confined::to_workspace);
  COVE_CO_CHECK(co_await files.make_directory(sandbox::workspace_path(batch->directory)));
  co_return Result<>();
}

std::string summary(const Batch& batch) {
  std::string results;
  std::size_t good = 0;
  for (const auto& one : batch.results) {
    if (!results.empty()) results += ',';
    results += one;
    if (one.starts_with(R"({"success":true)")) ++good;
  }
  const auto total = batch.results.size();
  return fmt::format(
      R"("message":{},"success_count":{},"failed_count":{},"total_count":{},"results":[{}],"save_path":{})",
      json_text(fmt::format("下载完成: {}个成功, 共{} 个文件", good, total)), good, total - good, total, results,
      json_text(batch.asked_path));
}

Task<Answer> download_documents(Services& services, http::Exchange& exchange) {
  const auto config = services.config();
  COVE_OR_TRY(const auto body, co_await read_value(services, exchange));
  COVE_OR_TRY(const auto request, fastapi::valid(parse_efast(body)));
  if (request.files.empty()) co_return detail(400, "No file parameters provided");
  if (request.files.size() > kMaxFiles) co_return detail(400, fmt::format("More than {} file parameters", kMaxFiles));
  std::vector<DocumentRequest> documents;
  for (std::size_t i = 0; i < request.files.size(); ++i) {
    auto document = document_of(request.files[i], i);
    if (!document) co_return detail(400, document.error().message);
    documents.push_back(std::move(*document));
  }
  const auto directory = session_path(request.save_path);
  constexpr auto kNoPath = "Failed to create save path: {}";
  if (!directory) co_return detail(500, fmt::format(kNoPath, directory.error().message));
  COVE_OR_TRY(auto session, co_await open_session(services, exchange));
  auto ticket = co_await run::admit(services, caller_of(exchange));
  if (!ticket) co_return answer_to(ticket.error(), "Batch download failed", *config);
  const auto executor = session.sandbox->executor();
  const auto batch = std::make_shared<Batch>(services, std::move(session), executor);
  batch->ticket.emplace(std::move(*ticket));
  batch->directory = *directory;
  batch->asked_path = request.save_path;
  if (const auto made = co_await make_directory(batch, exchange); !made)
    co_return detail(500, fmt::format(kNoPath, made.error().message));
  auto store = efast_store(request.url, request.token, config->workspace);
  if (!store) co_return failed(store.error().message);
  batch->store = std::move(*store);
  const auto usual = std::chrono::ceil<std::chrono::seconds>(config->workspace.efast_timeout);
  batch->timeout = request.timeout > 0 ? std::chrono::seconds(std::min(request.timeout, kLongest)) : usual;
  batch->documents = std::move(documents);
  batch->results.resize(batch->documents.size());
  const auto workers = std::min<std::size_t>(kAtOnce, batch->documents.size());
  for (std::size_t i = 0; i < workers; ++i) {
    ++batch->working;
    services.registry.tasks().spawn("download documents", work(batch));
  }
  while (batch->working > 0) {
    co_await batch->changed.wait_until(Clock::now() + kPollInterval);
    batch->left = exchange.client_gone();
    if (batch->left) co_return std::nullopt;
  }
  co_return envelope(summary(*batch));
}

constexpr auto kEfastRoutes = std::to_array<Route>({
    {verb::post, "/workspace/se/download_from_efast/{session_id}", answered<download_documents>, kPlain},
});

}  // namespace

Routes efast_routes() {
  return kEfastRoutes;
}

}  // namespace cove::doors::workspace
