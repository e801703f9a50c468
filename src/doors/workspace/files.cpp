#include <algorithm>

#include "base/text.hpp"
#include "doors/workspace/answers.hpp"
#include "doors/workspace/listing.hpp"
#include "doors/workspace/text_chunk.hpp"
#include "http/disposition.hpp"
#include "http/encoding.hpp"
#include "http/multipart.hpp"
#include "sandbox/file_facts.hpp"
#include "sandbox/helper.hpp"

namespace cove::doors::workspace {
namespace {

using sandbox::Helper;

constexpr std::size_t kChunk = 256U << 10;
constexpr std::size_t kTextShown = 64U << 10;                // of a text where a file should be
constexpr std::uint64_t kFormRoom = 16ULL << 20;             // what a form may have besides its file
constexpr std::int64_t kMostRead = std::int64_t{512} << 10;  // of one readfile: an answer holds it three times
constexpr std::string_view kMostListed = "10000";
constexpr std::string_view kInvalid = "Invalid file path";

std::string inside(std::string_view path) {
  return path.empty() ? "/workspace" : fmt::format("/workspace/{}", path);
}

Task<Result<std::unique_ptr<Helper>>> start(const Session& session, std::vector<std::string> arguments,
                                            const http::Exchange& exchange) {
  std::vector<std::string> all{"--within", "/workspace"};
  all.insert(all.end(), std::make_move_iterator(arguments.begin()), std::make_move_iterator(arguments.end()));
  return Helper::start(session.sandbox, std::move(all), gone(exchange));
}

// What failed, unless it is the path that leads out.
http::Response failure(const Error& error, std::string_view message, const config::Config& config) {
  if (error.sys_errno == EXDEV) return mistake({.message = kInvalid, .detail = error.message}, config);
  return answer_to(error, message, config);
}

Task<> create(Services& services, http::Exchange& exchange) {
  const auto config = services.config();
  const auto body = co_await read_value(services, exchange);
  if (!body) co_return co_await send(exchange, body.error());
  auto parsed = parse_file(*body);
  if (const auto* problems = std::get_if<Problems>(&parsed))
    co_return co_await send(exchange, fastapi::wrong(*problems));
  auto& request = std::get<FileRequest>(parsed);
  const auto session = co_await open_session(services, exchange);
  if (!session) co_return co_await send(exchange, session.error());
  auto path = session_path(request.filename);
  if (path && path->empty()) path = fail(Errc::invalid, "it names no file");
  if (!path) co_return co_await send(exchange, mistake({.message = kInvalid, .detail = path.error().message}, *config));
  if (request.mode < 0 || request.mode > 07777)
    co_return co_await send(exchange,
                            mistake({.message = "Invalid mode", .detail = "mode must be 0 to 4095"}, *config));
  const auto size = request.content.size();
  auto helper = co_await start(*session, {"write", inside(*path), fmt::format("{:o}", request.mode & 0777)}, exchange);
  constexpr std::string_view kFailed = "Failed to create file";
  if (!helper) co_return co_await send(exchange, failure(helper.error(), kFailed, *config));
  // One that takes no more has found fault; finish() says which.
  if (co_await (*helper)->write(std::move(request.content))) (*helper)->end_input();
  const auto written = co_await (*helper)->finish();
  if (!written) co_return co_await send(exchange, failure(written.error(), kFailed, *config));
  co_await send(exchange, envelope(fmt::format(R"("filename":{},"size":{})", json_text(request.filename), size)));
}

// Holds what came of the part called "file" until it is passed on.
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

// A form on its way into a file.
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
    helper_->end_input();
    const auto written = co_await helper_->finish();
    if (!written) co_return failure(written.error(), "Failed to upload file", *config_);
    co_return envelope(fmt::format(R"("filename":{},"size":{})", json_text(name_), size_));
  }

 private:
  static http::Response refusal(const Error& error) {
    return detail(error.code == Errc::over_limit ? 413 : 400, error.message);
  }

  // What came since the last call, to the helper. An answer when it cannot go on.
  Task<std::optional<http::Response>> pass_on() {
    if (!sink_.name) co_return std::nullopt;
    if (!helper_) {
      const auto asked = exchange_.request().query("filename").value_or("");
      name_ = asked.empty() ? decoded_name(*sink_.name) : asked;
      if (name_.empty()) co_return detail(400, "No filename provided");
      auto path = session_path(name_);
      if (path && path->empty()) path = fail(Errc::invalid, "it names no file");
      if (!path) co_return mistake({.message = kInvalid, .detail = path.error().message}, *config_);
      auto started = co_await start(session_, {"write", inside(*path), "0644"}, exchange_);
      if (!started) co_return failure(started.error(), "Failed to upload file", *config_);
      helper_ = std::move(*started);
    }
    size_ += sink_.pending.size();
    if (size_ > config_->upload.max_body_bytes)
      co_return detail(413, fmt::format("The file is larger than {} bytes", config_->upload.max_body_bytes));
    if (sink_.pending.empty()) co_return std::nullopt;
    if (!co_await helper_->write(std::exchange(sink_.pending, {}))) {
      // It has found fault already.
      const auto why = co_await helper_->finish();
      const Error ended{.code = Errc::io, .message = "the sandbox's file helper ended too early"};
      co_return failure(why ? ended : why.error(), "Failed to upload file", *config_);
    }
    co_return std::nullopt;
  }

  http::Exchange& exchange_;
  const Session& session_;
  std::shared_ptr<const config::Config> config_;
  UploadSink sink_;
  std::unique_ptr<Helper> helper_;
  std::string name_;
  std::uint64_t size_ = 0;
};

Task<> upload(Services& services, http::Exchange& exchange) {
  const auto boundary = http::boundary_of(exchange.request().header("Content-Type"));
  if (!boundary) co_return co_await send(exchange, fastapi::wrong(fastapi::missing_file()));
  if (boundary->empty()) co_return co_await send(exchange, detail(400, "Missing boundary in multipart."));
  const auto session = co_await open_session(services, exchange);
  if (!session) co_return co_await send(exchange, session.error());
  Upload upload(exchange, *session, services.config());
  auto response = co_await upload.run(*boundary);
  co_await send(exchange, std::move(response));
}

// How the two ways to get a whole file speak of what is wrong.
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

// Streams the file as it was when it was opened.
Task<> send_file(http::Exchange& exchange, const Session& session, std::string path, Manner manner,
                 std::shared_ptr<const config::Config> config) {
  auto helper = co_await start(session, {"read", inside(path)}, exchange);
  if (!helper) co_return co_await send(exchange, file_trouble(helper.error(), manner, *config));
  (*helper)->end_input();
  const auto line = co_await (*helper)->read_line();
  if (!line) co_return co_await send(exchange, file_trouble(line.error(), manner, *config));
  const auto facts = sandbox::parse_facts(*line);
  if (!facts) co_return co_await send(exchange, file_trouble(facts.error(), manner, *config));
  const std::string name = path.substr(path.rfind('/') + 1);
  http::Response head{.status = 200, .content_type = "application/octet-stream"};
  head.headers = {{"Content-Disposition", http::attachment(name)},
                  {"ETag", sandbox::etag_of(*facts)},
                  {"Last-Modified", http::http_date(facts->mtime_ns)},
                  {"X-Content-Type-Options", "nosniff"}};
  if (manner.preview) {
    head.content_type = *preview_type(path);
    // Whatever the page is, it is nobody's here: no script of it runs as ours.
    head.headers.emplace_back("Content-Security-Policy", "sandbox");
  }
  if (!co_await exchange.start(std::move(head), facts->size)) co_return;
  for (std::uint64_t left = facts->size; left > 0;) {
    const auto bytes = co_await (*helper)->read();
    if (bytes.empty()) co_return exchange.abort();  // it became shorter: that must show
    const auto part =
        std::string_view(bytes).substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(left, bytes.size())));
    if (!co_await exchange.write(part)) co_return;
    left -= part.size();
  }
  [[maybe_unused]] const auto done = co_await exchange.finish();
}

Task<> download(Services& services, http::Exchange& exchange) {
  const auto config = services.config();
  const auto session = co_await open_session(services, exchange);
  if (!session) co_return co_await send(exchange, session.error());
  const auto path = session_path(exchange.request().param("path"));
  if (!path) co_return co_await send(exchange, detail(400, fmt::format("Invalid file path: {}", path.error().message)));
  co_await send_file(exchange, *session, *path, {}, config);
}

Task<> list_session(Services& services, http::Exchange& exchange, std::string name, std::string given) {
  const auto config = services.config();
  const auto recursive = flag_of(exchange.request().queries, "recursive", false);
  if (const auto* problems = std::get_if<Problems>(&recursive))
    co_return co_await send(exchange, fastapi::wrong(*problems));
  const bool deep = std::get<bool>(recursive);
  const auto session = co_await open_session_named(services, exchange.request().principal, std::move(name));
  if (!session) co_return co_await send(exchange, session.error());
  const auto path = session_path(given);
  if (!path)
    co_return co_await send(exchange, mistake({.message = "Invalid path", .detail = path.error().message}, *config));
  auto helper =
      co_await start(*session, {"list", inside(*path), deep ? "1000" : "1", std::string(kMostListed)}, exchange);
  constexpr std::string_view kFailed = "Failed to list files";
  if (!helper) co_return co_await send(exchange, answer_to(helper.error(), kFailed, *config));
  (*helper)->end_input();
  const auto answer = co_await (*helper)->finish();
  if (!answer && answer.error().sys_errno == EXDEV)
    co_return co_await send(exchange, mistake({.message = "Invalid path", .detail = answer.error().message}, *config));
  // Whoever asks for everything below what is not there gets nothing.
  if (!answer && deep && answer.error().code == Errc::not_found)
    co_return co_await send(exchange, envelope(R"("files":[])"));
  if (!answer) co_return co_await send(exchange, answer_to(answer.error(), kFailed, *config));
  const auto listing = listed_files(*answer);
  if (!listing) co_return co_await send(exchange, answer_to(listing.error(), kFailed, *config));
  std::string files;
  for (const auto& file : listing->files) {
    const std::string base = file.path.substr(file.path.rfind('/') + 1);
    if (base == "stdout.log" || base == "stderr.log") continue;
    files += fmt::format(R"({}{{"filename":{},"name":{},"size":{},"type":{}}})", files.empty() ? "" : ",",
                         json_text(file.path), json_text(file.path), file.size, json_text(type_of(base)));
  }
  co_await send(exchange,
                envelope(fmt::format(R"("files":[{}]{})", files, listing->cut ? R"(,"truncated":true)" : "")));
}

Task<> list(Services& services, http::Exchange& exchange) {
  const auto& request = exchange.request();
  co_await list_session(services, exchange, request.param("session_id"), request.param("path"));
}

// Without `sid` somebody lists a session of that name.
Task<> preview(Services& services, http::Exchange& exchange) {
  const auto& request = exchange.request();
  if (!request.query("sid")) {
    co_return co_await list_session(services, exchange, "preview",
                                    request.param("session_id") + "/" + request.param("path"));
  }
  const auto config = services.config();
  const auto session = co_await open_session(services, exchange);
  if (!session) co_return co_await send(exchange, session.error());
  const auto path = session_path(request.param("path"));
  if (!path) co_return co_await send(exchange, mistake({.message = kInvalid, .detail = path.error().message}, *config));
  if (!preview_type(*path)) co_return co_await send(exchange, mistake({.message = "File type not supported"}, *config));
  co_await send_file(exchange, *session, *path, {.preview = true}, config);
}

Task<> read_file(Services& services, http::Exchange& exchange) {
  const auto config = services.config();
  const auto& request = exchange.request();
  const auto numbers = numbers_of(request.queries, {{"offset", 0}, {"buffer_size", 4096}});
  if (const auto* problems = std::get_if<Problems>(&numbers))
    co_return co_await send(exchange, fastapi::wrong(*problems));
  const auto offset = std::get<std::vector<std::int64_t>>(numbers)[0];
  const auto asked = std::get<std::vector<std::int64_t>>(numbers)[1];
  const auto session = co_await open_session(services, exchange);
  if (!session) co_return co_await send(exchange, session.error());
  const auto path = session_path(request.param("path"));
  if (!path) co_return co_await send(exchange, mistake({.message = kInvalid, .detail = path.error().message}, *config));
  constexpr std::string_view kFailed = "Failed to read file";
  const bool text = is_text_file(*path);
  const auto most = std::clamp<std::int64_t>(asked, 0, kMostRead);
  // A character has up to four bytes, and one is always given.
  const auto length = text && most > 0 ? std::max<std::int64_t>(most, 4) : most;
  std::vector<std::string> arguments{"read", inside(*path), std::to_string(std::max<std::int64_t>(offset, 0)),
                                     std::to_string(length)};
  auto helper = co_await start(*session, std::move(arguments), exchange);
  if (!helper) co_return co_await send(exchange, file_trouble(helper.error(), {.preview = true}, *config));
  (*helper)->end_input();
  const auto line = co_await (*helper)->read_line();
  if (!line) co_return co_await send(exchange, file_trouble(line.error(), {.preview = true}, *config));
  const auto facts = sandbox::parse_facts(*line);
  if (!facts) co_return co_await send(exchange, answer_to(facts.error(), kFailed, *config));
  if (offset < 0)
    co_return co_await send(exchange, mistake({.message = kFailed, .detail = "Error: Invalid offset"}, *config));
  if (asked < 0)
    co_return co_await send(exchange, mistake({.message = kFailed, .detail = "Error: Invalid buffer_size"}, *config));
  const auto from = static_cast<std::uint64_t>(offset);
  if (from >= facts->size) {
    co_return co_await send(
        exchange, envelope(fmt::format(R"("content":"","offset":{},"size":{},"is_eof":true)", offset, facts->size)));
  }
  auto bytes = co_await (*helper)->finish();
  if (!bytes) co_return co_await send(exchange, answer_to(bytes.error(), kFailed, *config));
  bytes->resize(std::min(bytes->size(), static_cast<std::size_t>(length)));
  TextChunk chunk;
  if (text) {
    const auto wanted = std::string_view(*bytes).substr(0, static_cast<std::size_t>(most));
    const auto more = [&](std::string_view part) {
      return from + part.size() < facts->size ? More::comes : More::none;
    };
    const auto begin = from == 0 ? Begin::of_file : Begin::anywhere;
    chunk = text_chunk(wanted, begin, more(wanted));
    if (chunk.used == 0 && !wanted.empty()) chunk = text_chunk(*bytes, begin, more(*bytes));
  } else {
    chunk = {.text = base64(*bytes), .used = bytes->size()};
  }
  co_await send(exchange, envelope(fmt::format(R"("content":{},"is_binary":{},"offset":{},"size":{},"is_eof":{})",
                                               json_text(chunk.text), !text, from + chunk.used, facts->size,
                                               from + chunk.used >= facts->size)));
}

}  // namespace

void add_file_routes(http::Router& router, Services* services) {
  using http::verb;
  auto* s = services;
  const auto options = plain_route();
  auto whole = options;
  whole.rest = true;
  const std::string prefix = "/workspace/se";
  router.add(
      verb::post, prefix + "/create/{session_id}", [s](auto& exchange) { return create(*s, exchange); }, options);
  router.add(
      verb::post, prefix + "/upload/{session_id}", [s](auto& exchange) { return upload(*s, exchange); }, options);
  router.add(
      verb::get, prefix + "/download/{session_id}/{path}", [s](auto& exchange) { return download(*s, exchange); },
      whole);
  router.add(
      verb::get, prefix + "/files/{session_id}/{path}", [s](auto& exchange) { return list(*s, exchange); }, whole);
  router.add(
      verb::get, prefix + "/files/preview/{session_id}/{path}", [s](auto& exchange) { return preview(*s, exchange); },
      whole);
  router.add(
      verb::get, prefix + "/readfile/{session_id}/{path}", [s](auto& exchange) { return read_file(*s, exchange); },
      whole);
}

}  // namespace cove::doors::workspace
