#include <charconv>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "doors/sandboxes/answers.hpp"
#include "http/encoding.hpp"
#include "sandbox/file_facts.hpp"
#include "sandbox/helper.hpp"

namespace cove::doors::sandboxes {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kChunk = 256U << 10;
constexpr std::uint64_t kMostEntries = 10'000;

// Absolute, so that no name can be taken for an option of the helper's.
Result<std::string> checked_path(std::string_view field, std::string path) {
  if (path.empty()) return fail(Errc::invalid, fmt::format("{} is missing or empty", field));
  if (path.find('\0') != std::string::npos) return fail(Errc::invalid, fmt::format("{} may not contain NUL", field));
  if (path.size() > 4096) return fail(Errc::invalid, fmt::format("{} is longer than 4096 bytes", field));
  return path.starts_with('/') ? path : "/workspace/" + path;
}

Result<std::string> path_query(const http::Request& request, std::string_view name, std::string_view usual) {
  return checked_path(name, request.query(name).value_or(std::string(usual)));
}

// A sandbox and what is to be done in it; the sandbox lives at least as long.
struct Work {
  std::shared_ptr<sandbox::Sandbox> sandbox;
  sandbox::Sandbox::Activity activity;
  sandbox::Transfer transfer;
};

std::function<bool()> gone(const http::Exchange& exchange) {
  return [&exchange] { return exchange.client_gone(); };
}

Task<Result<Work>> begin(Services& services, const http::Request& request) {
  auto found = co_await find_sandbox(services, request);
  if (!found) co_return tl::unexpected<Error>(found.error());
  co_return Work{.sandbox = *found,
                 .activity = sandbox::Sandbox::Activity(*found),
                 .transfer = sandbox::Transfer(services.transfers)};
}

// Passes the body on to the helper. Fails when it did not come whole: nothing may come of it then.
Task<Result<>> pass_body_on(http::Exchange& exchange, sandbox::Helper& helper, std::uint64_t limit) {
  std::string chunk(kChunk, '\0');
  std::uint64_t passed = 0;
  while (true) {
    const auto size = co_await exchange.read_body_some(chunk.data(), chunk.size());
    if (!size) co_return tl::unexpected<Error>(size.error());
    if (*size == 0) break;
    passed += *size;
    if (passed > limit) co_return fail(Errc::over_limit, fmt::format("the body is larger than {} bytes", limit));
    const auto written = co_await helper.write(chunk.substr(0, *size));
    if (!written) co_return Result<>();  // it has found fault already; finish() says which
  }
  helper.end_input();
  co_return Result<>();
}

Task<> send_json(http::Exchange& exchange, std::string answer) {
  boost::system::error_code failed;
  auto value = json::parse(answer, failed);
  if (failed)
    co_return co_await refuse(exchange, {.code = Errc::io, .message = "the sandbox's file helper broke the protocol"});
  auto response = http::json_response(200, value);
  [[maybe_unused]] const auto sent = co_await exchange.send(std::move(response));
}

// One question to the helper, one object back.
Task<> ask_helper(Services& services, http::Exchange& exchange, Result<std::vector<std::string>> arguments,
                  unsigned status) {
  if (!arguments) co_return co_await refuse(exchange, arguments.error());
  const auto work = co_await begin(services, exchange.request());
  if (!work) co_return co_await refuse(exchange, work.error());
  auto helper = co_await sandbox::Helper::start(work->sandbox, std::move(*arguments), gone(exchange));
  if (!helper) co_return co_await refuse(exchange, helper.error());
  (*helper)->end_input();
  auto answer = co_await (*helper)->finish();
  if (!answer) co_return co_await refuse(exchange, answer.error());
  if (status != 204) co_return co_await send_json(exchange, std::move(*answer));
  http::Response done{.status = 204, .content_type = ""};
  [[maybe_unused]] const auto sent = co_await exchange.send(std::move(done));
}

Task<> upload(Services& services, http::Exchange& exchange) {
  const auto work = co_await begin(services, exchange.request());
  if (!work) co_return co_await refuse(exchange, work.error());
  const auto dest = path_query(exchange.request(), "dest", "/workspace");
  if (!dest) co_return co_await refuse(exchange, dest.error());
  const auto config = services.config();
  const auto& limits = config->upload;
  if (exchange.content_length().value_or(0) > limits.max_body_bytes) {
    co_return co_await refuse(exchange,
                              {.code = Errc::over_limit,
                               .message = fmt::format("the archive is larger than {} bytes", limits.max_body_bytes)});
  }
  std::vector<std::string> arguments{"upload",        *dest,
                                     "--max-bytes",   std::to_string(limits.max_unpacked_bytes),
                                     "--max-members", std::to_string(limits.max_members),
                                     "--max-depth",   std::to_string(limits.max_depth),
                                     "--max-ratio",   std::to_string(limits.max_ratio)};
  auto helper = co_await sandbox::Helper::start(work->sandbox, std::move(arguments), gone(exchange));
  if (!helper) co_return co_await refuse(exchange, helper.error());
  const auto passed = co_await pass_body_on(exchange, **helper, limits.max_body_bytes);
  if (!passed) co_return co_await refuse(exchange, passed.error());
  auto answer = co_await (*helper)->finish();
  if (!answer) co_return co_await refuse(exchange, answer.error());
  co_await send_json(exchange, std::move(*answer));
}

Task<> download(Services& services, http::Exchange& exchange) {
  const auto work = co_await begin(services, exchange.request());
  if (!work) co_return co_await refuse(exchange, work.error());
  const auto src = path_query(exchange.request(), "src", "/workspace");
  if (!src) co_return co_await refuse(exchange, src.error());
  std::vector<std::string> arguments{"download", *src};
  auto helper = co_await sandbox::Helper::start(work->sandbox, std::move(arguments), gone(exchange));
  if (!helper) co_return co_await refuse(exchange, helper.error());
  (*helper)->end_input();
  auto bytes = co_await (*helper)->read();
  if (bytes.empty()) {
    const auto ended = co_await (*helper)->finish();
    co_return co_await refuse(exchange,
                              ended ? Error{.code = Errc::io, .message = "the archive is empty"} : ended.error());
  }
  http::Response head{.status = 200, .content_type = "application/x-tar"};
  if (!co_await exchange.start(std::move(head))) co_return;
  for (; !bytes.empty(); bytes = co_await (*helper)->read()) {
    if (!co_await exchange.write(bytes)) co_return;
  }
  // What broke off must not look whole.
  if (const auto ended = co_await (*helper)->finish(); !ended) co_return exchange.abort();
  [[maybe_unused]] const auto done = co_await exchange.finish();
}

struct Range {
  std::optional<std::uint64_t> first;  // none: the last `last` bytes
  std::optional<std::uint64_t> last;
};

// One range of bytes. Several, and what is no range, are as if nothing had been asked (RFC 9110, 14.2).
std::optional<Range> parse_range(std::string_view header) {
  if (!header.starts_with("bytes=") || header.find(',') != std::string_view::npos) return std::nullopt;
  header.remove_prefix(6);
  const auto dash = header.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto number = [](std::string_view text) -> std::optional<std::uint64_t> {
    std::uint64_t value = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
    return failed == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
  };
  const auto before = header.substr(0, dash);
  const auto after = header.substr(dash + 1);
  Range range{.first = number(before), .last = number(after)};
  if ((!before.empty() && !range.first) || (!after.empty() && !range.last) || (!range.first && !range.last))
    return std::nullopt;
  if (range.first && range.last && *range.last < *range.first) return std::nullopt;
  return range;
}

// A list of tags, weak or not, or "*" (RFC 9110, 13.1.2).
bool names_tag(std::string_view list, std::string_view etag) {
  while (!list.empty()) {
    auto tag = take_until(list, ',');
    while (tag.starts_with(' ')) tag.remove_prefix(1);
    while (tag.ends_with(' ')) tag.remove_suffix(1);
    if (tag.starts_with("W/")) tag.remove_prefix(2);
    if (tag == etag || tag == "*") return true;
  }
  return false;
}

Task<Result<sandbox::FileFacts>> facts_of(std::shared_ptr<sandbox::Sandbox> sandbox, std::string path,
                                          std::function<bool()> abandoned) {
  std::vector<std::string> arguments{"read", path, "0", "0"};
  auto helper = co_await sandbox::Helper::start(std::move(sandbox), std::move(arguments), std::move(abandoned));
  if (!helper) co_return tl::unexpected<Error>(helper.error());
  (*helper)->end_input();
  auto line = co_await (*helper)->read_line();
  if (!line) co_return tl::unexpected<Error>(line.error());
  co_return sandbox::parse_facts(*line);
}

Task<> read_file(Services& services, http::Exchange& exchange) {
  const auto& request = exchange.request();
  const auto work = co_await begin(services, request);
  if (!work) co_return co_await refuse(exchange, work.error());
  const auto path = path_query(request, "path", "");
  if (!path) co_return co_await refuse(exchange, path.error());
  auto range = parse_range(request.header("Range"));
  // A part of what the client has only counts if it still is what it has; that is for the file's facts to say.
  if (const auto wanted = request.header("If-Range"); range && !wanted.empty()) {
    const auto facts = co_await facts_of(work->sandbox, *path, gone(exchange));
    if (!facts) co_return co_await refuse(exchange, facts.error());
    if (wanted != etag_of(*facts)) range.reset();
  }
  std::uint64_t offset = 0;
  std::uint64_t length = INT64_MAX;
  if (range && !range->first) {
    // The end of a file can only be found by its size.
    const auto facts = co_await facts_of(work->sandbox, *path, gone(exchange));
    if (!facts) co_return co_await refuse(exchange, facts.error());
    offset = facts->size - std::min(facts->size, *range->last);
  } else if (range) {
    offset = *range->first;
    if (range->last) length = std::min<std::uint64_t>(*range->last - offset, INT64_MAX - 1) + 1;
  }
  std::vector<std::string> arguments{"read", *path, std::to_string(std::min<std::uint64_t>(offset, INT64_MAX)),
                                     std::to_string(length)};
  if (request.method == http::verb::head) arguments.back() = "0";
  auto helper = co_await sandbox::Helper::start(work->sandbox, std::move(arguments), gone(exchange));
  if (!helper) co_return co_await refuse(exchange, helper.error());
  (*helper)->end_input();
  const auto line = co_await (*helper)->read_line();
  if (!line) co_return co_await refuse(exchange, line.error());
  const auto facts = sandbox::parse_facts(*line);
  if (!facts) co_return co_await refuse(exchange, facts.error());

  const auto etag = etag_of(*facts);
  http::Response head{.status = 200, .content_type = "application/octet-stream"};
  head.headers = {{"ETag", etag},
                  {"Last-Modified", http::http_date(facts->mtime_ns)},
                  {"Accept-Ranges", "bytes"},
                  {"Cache-Control", "no-cache"}};
  if (names_tag(request.header("If-None-Match"), etag)) {
    head.status = 304;
    [[maybe_unused]] const auto sent = co_await exchange.send(std::move(head));
    co_return;
  }
  if (range && offset >= facts->size) {
    auto out = http::error_response(416, "invalid", "Range is outside the file");
    out.headers.emplace_back("Content-Range", fmt::format("bytes */{}", facts->size));
    [[maybe_unused]] const auto sent = co_await exchange.send(std::move(out));
    co_return;
  }
  length = std::min(length, facts->size - std::min(offset, facts->size));
  if (range) {
    head.status = 206;
    head.headers.emplace_back("Content-Range", fmt::format("bytes {}-{}/{}", offset, offset + length - 1, facts->size));
  }
  if (!co_await exchange.start(std::move(head), length)) co_return;
  if (request.method == http::verb::head) {
    [[maybe_unused]] const auto done = co_await exchange.finish();
    co_return;
  }
  // A file that changes while it is read gives as many bytes as were promised, or an answer that is visibly cut off.
  std::uint64_t left = length;
  while (left > 0) {
    const auto bytes = co_await (*helper)->read();
    if (bytes.empty()) co_return exchange.abort();
    const auto part =
        std::string_view(bytes).substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(left, bytes.size())));
    if (!co_await exchange.write(part)) co_return;
    left -= part.size();
  }
  [[maybe_unused]] const auto done = co_await exchange.finish();
}

Task<> write_file(Services& services, http::Exchange& exchange) {
  const auto& request = exchange.request();
  const auto work = co_await begin(services, request);
  if (!work) co_return co_await refuse(exchange, work.error());
  const auto path = path_query(request, "path", "");
  if (!path) co_return co_await refuse(exchange, path.error());
  const auto append = flag_query(request, "append");
  if (!append) co_return co_await refuse(exchange, append.error());
  const auto mode = request.query("mode").value_or("0644");
  if (mode.empty() || mode.size() > 4 || mode.find_first_not_of("01234567") != std::string::npos)
    co_return co_await refuse(exchange, {.code = Errc::invalid, .message = "mode must be octal, as 0644"});
  std::vector<std::string> arguments{"write", *path, mode};
  if (*append) arguments.emplace_back("append");
  auto helper = co_await sandbox::Helper::start(work->sandbox, std::move(arguments), gone(exchange));
  if (!helper) co_return co_await refuse(exchange, helper.error());
  const auto passed = co_await pass_body_on(exchange, **helper, services.config()->upload.max_body_bytes);
  if (!passed) co_return co_await refuse(exchange, passed.error());
  auto answer = co_await (*helper)->finish();
  if (!answer) co_return co_await refuse(exchange, answer.error());
  co_await send_json(exchange, std::move(*answer));
}

Result<std::vector<std::string>> path_command(const http::Request& request, std::string command) {
  COVE_TRY(auto path, path_query(request, "path", ""));
  return std::vector<std::string>{std::move(command), std::move(path)};
}

Result<std::vector<std::string>> list_command(const http::Request& request) {
  COVE_TRY(auto path, path_query(request, "path", "/workspace"));
  COVE_TRY(const auto depth, number_query(request, "depth"));
  if (depth && (*depth < 1 || *depth > 1000)) return fail(Errc::invalid, "depth must be between 1 and 1000");
  return std::vector<std::string>{"list", std::move(path), std::to_string(depth.value_or(1)),
                                  std::to_string(kMostEntries)};
}

Result<std::vector<std::string>> remove_command(const http::Request& request) {
  COVE_TRY(auto command, path_command(request, "remove"));
  COVE_TRY(const auto recursive, flag_query(request, "recursive"));
  if (recursive) command.emplace_back("recursive");
  return command;
}

Result<std::vector<std::string>> rename_command(const json::object& body) {
  COVE_TRY(const auto from, text_field(body, "from"));
  COVE_TRY(auto source, checked_path("from", from.value_or("")));
  COVE_TRY(const auto to, text_field(body, "to"));
  COVE_TRY(auto target, checked_path("to", to.value_or("")));
  COVE_TRY(const auto overwrite, bool_field(body, "overwrite"));
  std::vector<std::string> command{"rename", std::move(source), std::move(target)};
  if (overwrite.value_or(false)) command.emplace_back("overwrite");
  return command;
}

Result<std::vector<std::string>> mkdir_command(const json::object& body) {
  COVE_TRY(const auto path, text_field(body, "path"));
  COVE_TRY(auto checked, checked_path("path", path.value_or("")));
  return std::vector<std::string>{"mkdir", std::move(checked)};
}

Task<> ask_with_body(Services& services, http::Exchange& exchange,
                     Result<std::vector<std::string>> (*command)(const json::object&)) {
  const auto body = co_await read_object(services, exchange);
  if (!body) co_return co_await refuse(exchange, body.error());
  co_await ask_helper(services, exchange, command(*body), 200);
}

Task<> watch(Services& services, http::Exchange& exchange) {
  const auto work = co_await begin(services, exchange.request());
  if (!work) co_return co_await refuse(exchange, work.error());
  auto command = path_command(exchange.request(), "watch");
  if (!command) co_return co_await refuse(exchange, command.error());
  const auto recursive = flag_query(exchange.request(), "recursive");
  if (!recursive) co_return co_await refuse(exchange, recursive.error());
  if (*recursive) command->emplace_back("recursive");
  auto helper = co_await sandbox::Helper::start(work->sandbox, std::move(*command), gone(exchange));
  if (!helper) co_return co_await refuse(exchange, helper.error());
  const auto ready = co_await (*helper)->read_line();
  if (!ready) co_return co_await refuse(exchange, ready.error());
  auto head = event_stream();
  if (!co_await exchange.start(std::move(head))) co_return;
  auto text = http::sse_comment();
  std::uint64_t sequence = 0;
  auto spoke = Clock::now();
  while (goes_on(services, exchange) && !services.draining()) {
    if (!text.empty()) {
      if (!co_await exchange.write(text)) co_return;
      text.clear();
      spoke = Clock::now();
    }
    while (const auto line = (*helper)->line_now()) {
      boost::system::error_code failed;
      const auto value = json::parse(*line, failed);
      const auto* type = failed || !value.is_object() ? nullptr : value.as_object().if_contains("type");
      if (type == nullptr || !type->is_string()) continue;
      text += http::sse_event(++sequence, type->as_string(), json::serialize(value));
    }
    if (!text.empty()) continue;
    if ((*helper)->over()) break;
    if (Clock::now() - spoke > std::chrono::seconds(15)) text = http::sse_comment();
    co_await (*helper)->process().changed().wait_until(Clock::now() + milliseconds(250));
  }
  [[maybe_unused]] const auto done = co_await exchange.finish();
}

}  // namespace

void add_file_routes(http::Router& router, Services* services) {
  using http::verb;
  auto* s = services;
  const http::RouteOptions any_size{.body_limit = UINT64_MAX};
  const std::string files = "/v1/sandboxes/{id}/files";
  router.add(verb::post, files + "/upload", [s](auto& exchange) { return upload(*s, exchange); }, any_size);
  router.add(verb::get, files + "/download", [s](auto& exchange) { return download(*s, exchange); });
  router.add(verb::get, files, [s](auto& exchange) { return read_file(*s, exchange); });
  router.add(verb::head, files, [s](auto& exchange) { return read_file(*s, exchange); });
  router.add(verb::put, files, [s](auto& exchange) { return write_file(*s, exchange); }, any_size);
  router.add(verb::delete_, files,
             [s](auto& exchange) { return ask_helper(*s, exchange, remove_command(exchange.request()), 204); });
  router.add(verb::get, files + "/stat",
             [s](auto& exchange) { return ask_helper(*s, exchange, path_command(exchange.request(), "stat"), 200); });
  router.add(verb::get, files + "/list",
             [s](auto& exchange) { return ask_helper(*s, exchange, list_command(exchange.request()), 200); });
  router.add(verb::post, files + "/rename",
             [s](auto& exchange) { return ask_with_body(*s, exchange, rename_command); });
  router.add(verb::post, files + "/mkdir", [s](auto& exchange) { return ask_with_body(*s, exchange, mkdir_command); });
  router.add(verb::get, files + "/watch", [s](auto& exchange) { return watch(*s, exchange); });
}

}  // namespace cove::doors::sandboxes
