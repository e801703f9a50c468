#include <unistd.h>

#include <algorithm>
#include <array>

#include "async/deadline.hpp"
#include "base/text.hpp"
#include "doors/execute/answers.hpp"
#include "http/disposition.hpp"
#include "http/multipart.hpp"

namespace cove::doors::execute {
namespace {

constexpr std::size_t kChunk = 256U << 10;
constexpr std::size_t kTextShown = 64U << 10;     // of a text where a file should be
constexpr std::uint64_t kFormRoom = 16ULL << 20;  // what a form may have besides its file
constexpr std::uint32_t kPage = 500;
constexpr std::chrono::seconds kExpiryStep{10};

// Writes the part named "file" to disk while it is received; of several the last counts.
class UploadSink : public http::PartSink {
 public:
  UploadSink(store::FileStore& files, std::string tenant, std::uint64_t limit)
      : files_(files), tenant_(std::move(tenant)), limit_(limit) {}

  Result<> begin_part(http::PartHead head) override {
    wanted_ = head.name == "file";
    if (!wanted_) return {};
    draft.reset();
    text.reset();
    if (!head.filename) {
      text.emplace();
      return {};
    }
    COVE_TRY(auto begun, files_.begin(tenant_));
    draft.emplace(std::move(begun));
    name = head.filename->empty() ? "unnamed" : std::move(*head.filename);
    return {};
  }
  Result<> add_bytes(std::string_view bytes) override {
    if (!wanted_) return {};
    if (text) {
      text->append(bytes.substr(0, kTextShown - std::min(kTextShown, text->size())));
      return {};
    }
    if (draft->size() + bytes.size() > limit_)
      return fail(Errc::over_limit, fmt::format("File size exceeds maximum of {} MB", limit_ >> 20));
    return draft->append(bytes);
  }
  Result<> end_part() override { return {}; }

  std::optional<store::FileStore::Draft> draft;
  std::optional<std::string> text;
  std::string name;

 private:
  store::FileStore& files_;
  std::string tenant_;
  std::uint64_t limit_;
  bool wanted_ = false;
};

std::string shown_time(std::int64_t unix_ms) {
  return fmt::format("{}.{:03}", unix_ms / 1000, unix_ms % 1000);
}

http::Response not_found(std::string_view id) {
  return detail(404, fmt::format("File with ID '{}' not found", id));
}

http::Response refusal(const Error& error, const Services& services) {
  if (error.code == Errc::invalid) return detail(400, error.message);
  return answer_to(error, *services.config());
}

Task<Result<>> read_form(http::Exchange& exchange, std::string boundary, UploadSink& sink, std::uint64_t limit) {
  http::MultipartReader reader(boundary, sink);
  std::string chunk(kChunk, '\0');
  std::uint64_t taken = 0;
  while (true) {
    COVE_CO_TRY(const auto size, co_await exchange.read_body_some(chunk.data(), chunk.size()));
    if (size == 0) break;
    taken += size;
    if (taken > limit) co_return fail(Errc::over_limit, "The form is too large");
    if (auto fed = reader.feed(std::string_view(chunk).substr(0, size)); !fed) co_return fed;
  }
  co_return reader.finish();
}

// An oversized body is not read here: the connection discards the rest after the answer.
Task<Answer> upload(Services& services, http::Exchange& exchange) {
  const auto config = services.config();
  if (services.draining()) {
    co_return later(detail(503, "The server is shutting down"), config->execute.retry_after);
  }
  const auto boundary = http::boundary_of(exchange.request().header("Content-Type"));
  if (!boundary) co_return wrong(fastapi::missing_file());
  if (boundary->empty()) co_return detail(400, "Missing boundary in multipart.");
  const auto pass = services.gate.enter();
  const auto limit = config->files.max_size_bytes;
  UploadSink sink(services.files, exchange.request().principal.tenant, limit);
  const auto read = co_await read_form(exchange, *boundary, sink, limit + kFormRoom);
  if (!read) co_return refusal(read.error(), services);
  if (sink.text) co_return wrong(fastapi::file_is_text(replace_invalid_utf8(*sink.text)));
  if (!sink.draft) co_return wrong(fastapi::missing_file());
  const auto kept = services.files.keep(std::move(*sink.draft), sink.name);
  if (!kept) co_return refusal(kept.error(), services);
  co_return json(201, fmt::format(R"({{"file_id":"{}","filename":{},"size_bytes":{}}})", kept->id,
                                  json_text(kept->name), kept->size_bytes));
}

std::string to_json(const store::FileRow& row) {
  return fmt::format(R"({{"file_id":"{}","filename":{},"size_bytes":{},"upload_time":{}}})", row.id,
                     json_text(row.name), row.size_bytes, shown_time(row.uploaded_unix_ms));
}

// In pages, so that a tenant with many files does not block the loop.
Task<Answer> list(Services& services, http::Exchange& exchange) {
  const auto tenant = exchange.request().principal.tenant;
  std::string text = R"({"files":[)";
  bool begun = false;
  bool first = true;
  for (std::int64_t after = 0;;) {
    const auto rows = services.files.list(tenant, after, kPage);
    if (!rows && begun) {
      exchange.abort();
      co_return std::nullopt;
    }
    if (!rows) co_return refusal(rows.error(), services);
    for (const auto& row : *rows) {
      if (!std::exchange(first, false)) text += ',';
      text += to_json(row);
      after = row.seq;
    }
    if (rows->size() < kPage) break;
    if (!begun && !co_await exchange.start(json(200, ""))) co_return std::nullopt;
    begun = true;
    if (!co_await exchange.write(text)) co_return std::nullopt;
    text.clear();
  }
  text += "]}";
  if (!begun) co_return json(200, std::move(text));
  if (co_await exchange.write(text)) [[maybe_unused]]
    const auto done = co_await exchange.finish();
  co_return std::nullopt;
}

Task<Answer> download(Services& services, http::Exchange& exchange) {
  const auto id = exchange.request().param("file_id");
  const auto row = services.files.find(exchange.request().principal.tenant, id);
  if (!row && row.error().code == Errc::not_found) co_return not_found(id);
  if (!row) co_return refusal(row.error(), services);
  // Once open, the file can be read to its end even if it is deleted.
  const auto file = services.files.open(*row);
  if (!file) co_return refusal(file.error(), services);
  const auto pass = services.gate.enter();
  http::Response head{.status = 200, .content_type = "application/octet-stream"};
  head.headers.emplace_back("Content-Disposition", http::attachment(row->name));
  if (!co_await exchange.start(std::move(head), row->size_bytes)) co_return std::nullopt;
  std::string chunk(kChunk, '\0');
  for (std::uint64_t left = row->size_bytes; left > 0;) {
    const auto n =
        ::read(file->get(), chunk.data(), static_cast<std::size_t>(std::min<std::uint64_t>(left, chunk.size())));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      exchange.abort();
      co_return std::nullopt;
    }
    if (!co_await exchange.write(std::string_view(chunk).substr(0, static_cast<std::size_t>(n))))
      co_return std::nullopt;
    left -= static_cast<std::uint64_t>(n);
  }
  [[maybe_unused]] const auto done = co_await exchange.finish();
  co_return std::nullopt;
}

Task<Answer> remove(Services& services, http::Exchange& exchange) {
  const auto id = exchange.request().param("file_id");
  const auto removed = services.files.remove(exchange.request().principal.tenant, id);
  if (!removed && removed.error().code == Errc::not_found) co_return not_found(id);
  if (!removed) co_return refusal(removed.error(), services);
  co_return http::no_content();
}

}  // namespace

Task<> expire_files(Services& services) {
  while (true) {
    std::int64_t after = 0;
    while (true) {
      const auto expired = services.files.expire(after);
      if (!expired) services.log(fmt::format("files cannot expire reason=\"{}\"", expired.error().message));
      if (!expired || !expired->next) break;
      after = *expired->next;
      co_await async::sleep_for(std::chrono::milliseconds(1));  // others first
    }
    const auto ttl = services.config()->files.ttl;
    co_await async::sleep_for(
        std::clamp<std::chrono::milliseconds>(ttl / 4, std::chrono::milliseconds(250), kExpiryStep));
  }
}

namespace {

constexpr auto kFileRoutes = std::to_array<Route>({
    {verb::post, "/v1/files", answered<upload>, kStrict},
    {verb::get, "/v1/files", answered<list>, kStrict},
    {verb::get, "/v1/files/{file_id}", answered<download>, kStrict},
    {verb::delete_, "/v1/files/{file_id}", answered<remove>, kStrict},
});

}  // namespace

Routes file_routes() {
  return kFileRoutes;
}

}  // namespace cove::doors::execute
