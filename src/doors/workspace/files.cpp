#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "doors/workspace/answers.hpp"
#include "doors/workspace/listing.hpp"
#include "doors/workspace/text_chunk.hpp"
#include "http/disposition.hpp"
#include "http/encoding.hpp"
#include "http/multipart.hpp"
#include "http/parts.hpp"
#include "sandbox/files.hpp"

namespace cove::doors::workspace {
namespace {

constexpr std::size_t kChunk = 256U << 10;
constexpr std::size_t kTextShown = 64U << 10;               // of a text where a file should be
constexpr std::uint64_t kFormRoom = 16ULL << 20;            // what a form may have besides its file
constexpr std::int64_t kMaxRead = std::int64_t{512} << 10;  // of one readfile: an answer holds it three times
constexpr std::uint64_t kMaxListed = 10'000;
constexpr std::string_view kInvalid = "Invalid file path";

sandbox::SandboxFiles files_of(const Session& session, const http::Exchange& exchange) {
  return {session.sandbox, gone(exchange), sandbox::Confined::to_workspace,
          journal::actor_of(exchange.request().principal)};
}

// The error of a file operation; a path that leads out has its own.
http::Response failure(const Error& error, std::string_view message, const config::Config& config) {
  if (error.sys_errno == EXDEV) return mistake({.message = kInvalid, .detail = error.message}, config);
  return answer_to(error, message, config);
}

Task<Answer> create(Services& services, http::Exchange& exchange) {
  const auto config = services.config();
  COVE_OR_TRY(const auto body, co_await read_value(services, exchange));
  COVE_OR_TRY(auto request, fastapi::valid(parse_file(body)));
  COVE_OR_TRY(const auto session, co_await open_session(services, exchange));
  auto path = session_path(request.filename);
  if (path && path->empty()) path = fail(Errc::invalid, "it does not name a file");
  if (!path) co_return mistake({.message = kInvalid, .detail = path.error().message}, *config);
  if (request.mode < 0 || request.mode > 07777)
    co_return mistake({.message = "Invalid mode", .detail = "mode must be 0 to 4095"}, *config);
  const auto size = request.content.size();
  constexpr std::string_view kFailed = "Failed to create file";
  const auto files = files_of(session, exchange);
  const sandbox::WriteOptions options{.permissions = static_cast<std::uint32_t>(request.mode & 0777)};
  const auto written = co_await files.write_all(sandbox::workspace_path(*path), std::move(request.content), options);
  if (!written) co_return failure(written.error(), kFailed, *config);
  co_return envelope(fmt::format(R"("filename":{},"size":{})", json_text(request.filename), size));
}

// Holds received bytes of the part named "file" until they are forwarded.
class UploadSink : public http::PartSink {
 public:
  Result<> begin_part(http::PartHead head) override {
    wanted_ = head.name == "file";
    if (!wanted_) return {};
    if (name || text) return fail(Errc::invalid, "the form has more than one file");
    if (head.filename)
      name = std::move(head.filename);
    else
      text.emplace();
    return {};
  }
  Result<> add_bytes(std::string_view bytes) override {
    if (wanted_ && text) text->append(bytes.substr(0, kTextShown - std::min(kTextShown, text->size())));
    if (wanted_ && !text) pending.append(bytes);
    return {};
  }
  Result<> end_part() override { return {}; }

  std::optional<std::string> name;
  std::optional<std::string> text;
  std::string pending;

 private:
  bool wanted_ = false;
};

// Clients percent-encode the names of parts.
std::string decoded_name(const std::string& name) {
  auto decoded = http::percent_decode(name);
  return decoded && valid_utf8(*decoded) && decoded->find('\0') == std::string::npos ? *decoded : name;
}

// Writes an uploaded form into a file.
class Upload {
 public:
  Upload(http::Exchange& exchange, const Session& session, std::shared_ptr<const config::Config> config)
      : exchange_(exchange), session_(session), config_(std::move(config)) {}

  Task<http::Response> run(std::string boundary) {
    http::MultipartReader reader(boundary, sink_);
    const auto limit = config_->upload.max_body_bytes;
    std::string chunk(kChunk, '\0');
    std::uint64_t taken = 0;
    while (true) {
      const auto size = co_await exchange_.read_body_some(chunk.data(), chunk.size());
      if (!size) co_return refusal(size.error());
      if (*size == 0) break;
      taken += *size;
      if (taken > limit + kFormRoom) co_return detail(413, fmt::format("The file is larger than {} bytes", limit));
      if (const auto fed = reader.feed(std::string_view(chunk).substr(0, *size)); !fed) co_return refusal(fed.error());
      if (auto refused = co_await pass_on()) co_return std::move(*refused);
    }
    if (const auto whole = reader.finish(); !whole) co_return refusal(whole.error());
    if (sink_.text) co_return fastapi::wrong(fastapi::file_is_text(replace_invalid_utf8(*sink_.text)));
    if (!sink_.name) co_return fastapi::wrong(fastapi::missing_file());
    const auto written = co_await file_->finish();
    if (!written) co_return failure(written.error(), "Failed to upload file", *config_);
    co_return envelope(fmt::format(R"("filename":{},"size":{})", json_text(name_), size_));
  }

 private:
  static http::Response refusal(const Error& error) {
    return detail(error.code == Errc::over_limit ? 413 : 400, error.message);
  }

  // Writes the bytes received since the last call. Returns an answer when it has to stop.
  Task<std::optional<http::Response>> pass_on() {
    if (!sink_.name) co_return std::nullopt;
    if (!file_) {
      const auto asked = exchange_.request().query("filename").value_or("");
      name_ = asked.empty() ? decoded_name(*sink_.name) : asked;
      if (name_.empty()) co_return detail(400, "No filename provided");
      auto path = session_path(name_);
      if (path && path->empty()) path = fail(Errc::invalid, "it does not name a file");
      if (!path) co_return mistake({.message = kInvalid, .detail = path.error().message}, *config_);
      const auto files = files_of(session_, exchange_);
      auto started = co_await files.write(sandbox::workspace_path(*path), {});
      if (!started) co_return failure(started.error(), "Failed to upload file", *config_);
      file_.emplace(std::move(*started));
    }
    size_ += sink_.pending.size();
    if (size_ > config_->upload.max_body_bytes)
      co_return detail(413, fmt::format("The file is larger than {} bytes", config_->upload.max_body_bytes));
    if (sink_.pending.empty()) co_return std::nullopt;
    if (!co_await file_->write(std::exchange(sink_.pending, {}))) {
      // The form was already rejected.
      const auto why = co_await file_->finish();
      const Error ended{.code = Errc::io, .message = "the sandbox's file helper ended too early"};
      co_return failure(why ? ended : why.error(), "Failed to upload file", *config_);
    }
    co_return std::nullopt;
  }

  http::Exchange& exchange_;
  const Session& session_;
  std::shared_ptr<const config::Config> config_;
  UploadSink sink_;
  std::optional<sandbox::FileWriter> file_;
  std::string name_;
  std::uint64_t size_ = 0;
};

Task<Answer> upload(Services& services, http::Exchange& exchange) {
  const auto boundary = http::boundary_of(exchange.request().header("Content-Type"));
  if (!boundary) co_return fastapi::wrong(fastapi::missing_file());
  if (boundary->empty()) co_return detail(400, "Missing boundary in multipart.");
  COVE_OR_TRY(const auto session, co_await open_session(services, exchange));
  Upload upload(exchange, session, services.config());
  co_return co_await upload.run(*boundary);
}

// The error messages of the two routes that return a whole file.
struct Manner {
  bool preview = false;
};

http::Response file_trouble(const Error& error, Manner manner, const config::Config& config) {
  const bool outside = error.sys_errno == EXDEV;
  if (manner.preview && outside) return mistake({.message = kInvalid, .detail = error.message}, config);
  if (outside) return detail(400, fmt::format("Invalid file path: {}", error.message));
  if (error.code == Errc::not_found)
    return manner.preview ? mistake({.code = error.code, .message = "File not found"}, config)
                          : detail(404, "File not found");
  if (error.code == Errc::invalid)
    return manner.preview ? mistake({.message = "Not a file"}, config) : detail(400, "Not a file");
  return answer_to(error, "Failed to read file", config);
}

// Streams the file with the size it had when it was opened.
Task<Answer> send_file(http::Exchange& exchange, const Session& session, std::string path, Manner manner,
                       std::shared_ptr<const config::Config> config) {
  const auto files = files_of(session, exchange);
  auto file = co_await files.read(sandbox::workspace_path(path));
  if (!file) co_return file_trouble(file.error(), manner, *config);
  const auto& facts = file->facts();
  const std::string name = path.substr(path.rfind('/') + 1);
  http::Response head{.status = 200, .content_type = "application/octet-stream"};
  head.headers = {{"Content-Disposition", http::attachment(name)},
                  {"ETag", sandbox::etag_of(facts)},
                  {"Last-Modified", http::http_date(facts.mtime_ns)},
                  {"X-Content-Type-Options", "nosniff"}};
  if (manner.preview) {
    head.content_type = *preview_type(path);
    // Sandboxed, so that a script in the page has no origin.
    head.headers.emplace_back("Content-Security-Policy", "sandbox");
  }
  co_await http::send_parts(exchange, std::move(head), facts.size, [&file] { return file->next(); });
  co_return std::nullopt;
}

Task<Answer> download(Services& services, http::Exchange& exchange) {
  const auto config = services.config();
  COVE_OR_TRY(const auto session, co_await open_session(services, exchange));
  const auto path = session_path(exchange.request().param("path"));
  if (!path) co_return detail(400, fmt::format("Invalid file path: {}", path.error().message));
  co_return co_await send_file(exchange, session, *path, {}, config);
}

Task<Answer> list_session(Services& services, http::Exchange& exchange, std::string name, std::string given) {
  const auto config = services.config();
  COVE_OR_TRY(const bool deep, fastapi::valid(flag_of(exchange.request().queries, "recursive", false)));
  COVE_OR_TRY(const auto session, co_await open_session_named(services, exchange.request().principal, std::move(name)));
  const auto path = session_path(given);
  if (!path) co_return mistake({.message = "Invalid path", .detail = path.error().message}, *config);
  const auto files_here = files_of(session, exchange);
  constexpr std::string_view kFailed = "Failed to list files";
  const sandbox::ListOptions options{.depth = deep ? sandbox::kAnyDepth : 1, .max_entries = kMaxListed};
  const auto listing = co_await files_here.list(sandbox::workspace_path(*path), options);
  if (!listing && listing.error().sys_errno == EXDEV)
    co_return mistake({.message = "Invalid path", .detail = listing.error().message}, *config);
  // A recursive list of a missing directory is empty.
  if (!listing && deep && listing.error().code == Errc::not_found) co_return envelope(R"("files":[])");
  if (!listing) co_return answer_to(listing.error(), kFailed, *config);
  const auto regular = regular_files(*listing);
  if (!regular) co_return answer_to(regular.error(), kFailed, *config);
  std::string files;
  for (const auto& file : *regular) {
    const std::string base = file.path.substr(file.path.rfind('/') + 1);
    if (base == "stdout.log" || base == "stderr.log") continue;
    files += fmt::format(R"({}{{"filename":{},"name":{},"size":{},"type":{}}})", files.empty() ? "" : ",",
                         json_text(file.path), json_text(file.path), file.size, json_text(type_of(base)));
  }
  const auto cut = listing->truncated ? fmt::format(R"(,"truncated":true,"left_out":{})", listing->left_out) : "";
  co_return envelope(fmt::format(R"("files":[{}]{})", files, cut));
}

Task<Answer> list(Services& services, http::Exchange& exchange) {
  const auto& request = exchange.request();
  co_return co_await list_session(services, exchange, request.param("session_id"), request.param("path"));
}

// Without `sid` this is the file list of a session named "preview".
Task<Answer> preview(Services& services, http::Exchange& exchange) {
  const auto& request = exchange.request();
  if (!request.query("sid")) {
    co_return co_await list_session(services, exchange, "preview",
                                    request.param("session_id") + "/" + request.param("path"));
  }
  const auto config = services.config();
  COVE_OR_TRY(const auto session, co_await open_session(services, exchange));
  const auto path = session_path(request.param("path"));
  if (!path) co_return mistake({.message = kInvalid, .detail = path.error().message}, *config);
  if (!preview_type(*path)) co_return mistake({.message = "File type not supported"}, *config);
  co_return co_await send_file(exchange, session, *path, {.preview = true}, config);
}

Task<Answer> read_file(Services& services, http::Exchange& exchange) {
  const auto config = services.config();
  const auto& request = exchange.request();
  COVE_OR_TRY(const auto numbers, fastapi::valid(numbers_of(request.queries, {{"offset", 0}, {"buffer_size", 4096}})));
  const auto offset = numbers[0];
  const auto asked = numbers[1];
  COVE_OR_TRY(const auto session, co_await open_session(services, exchange));
  const auto path = session_path(request.param("path"));
  if (!path) co_return mistake({.message = kInvalid, .detail = path.error().message}, *config);
  constexpr std::string_view kFailed = "Failed to read file";
  const bool text = is_text_file(*path);
  const auto most = std::clamp<std::int64_t>(asked, 0, kMaxRead);
  // At least one character is returned, and it has up to four bytes.
  const auto length = text && most > 0 ? std::max<std::int64_t>(most, 4) : most;
  const auto files = files_of(session, exchange);
  const sandbox::ByteRange range{.offset = static_cast<std::uint64_t>(std::max<std::int64_t>(offset, 0)),
                                 .length = static_cast<std::uint64_t>(length)};
  auto file = co_await files.read(sandbox::workspace_path(*path), range);
  if (!file) co_return file_trouble(file.error(), {.preview = true}, *config);
  const auto& facts = file->facts();
  if (offset < 0) co_return mistake({.message = kFailed, .detail = "Error: Invalid offset"}, *config);
  if (asked < 0) co_return mistake({.message = kFailed, .detail = "Error: Invalid buffer_size"}, *config);
  const auto from = static_cast<std::uint64_t>(offset);
  if (from >= facts.size) {
    co_return envelope(fmt::format(R"("content":"","offset":{},"size":{},"is_eof":true)", offset, facts.size));
  }
  auto bytes = co_await file->rest();
  if (!bytes) co_return answer_to(bytes.error(), kFailed, *config);
  bytes->resize(std::min(bytes->size(), static_cast<std::size_t>(length)));
  TextChunk chunk;
  if (text) {
    const auto wanted = std::string_view(*bytes).substr(0, static_cast<std::size_t>(most));
    const auto more = [&](std::string_view part) { return from + part.size() < facts.size ? More::comes : More::none; };
    const auto begin = from == 0 ? Begin::of_file : Begin::anywhere;
    chunk = text_chunk(wanted, begin, more(wanted));
    if (chunk.used == 0 && !wanted.empty()) chunk = text_chunk(*bytes, begin, more(*bytes));
  } else {
    chunk = {.text = base64(*bytes), .used = bytes->size()};
  }
  co_return envelope(fmt::format(R"("content":{},"is_binary":{},"offset":{},"size":{},"is_eof":{})",
                                 json_text(chunk.text), !text, from + chunk.used, facts.size,
                                 from + chunk.used >= facts.size));
}

constexpr auto kFileRoutes = std::to_array<Route>({
    {verb::post, "/workspace/se/create/{session_id}", answered<create>, kPlain},
    {verb::post, "/workspace/se/upload/{session_id}", answered<upload>, kPlain},
    {verb::get, "/workspace/se/download/{session_id}/{path}", answered<download>, kRest},
    {verb::get, "/workspace/se/files/{session_id}/{path}", answered<list>, kRest},
    {verb::get, "/workspace/se/files/preview/{session_id}/{path}", answered<preview>, kRest},
    {verb::get, "/workspace/se/readfile/{session_id}/{path}", answered<read_file>, kRest},
});

}  // namespace

Routes file_routes() {
  return kFileRoutes;
}

}  // namespace cove::doors::workspace
