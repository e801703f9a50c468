#include <charconv>

#include "base/text.hpp"
#include "base/units.hpp"
#include "doors/sandboxes/file_work.hpp"
#include "http/encoding.hpp"

namespace cove::doors::sandboxes {
namespace {

namespace json = boost::json;

constexpr std::size_t kChunk = 256U << 10;

tl::unexpected<Error> too_large(std::uint64_t limit) {
  return fail(
      Errc::over_limit,
      fmt::format("the upload is larger than {}, the most this server takes (upload.max_body)", format_size(limit)));
}

// Forwards the body. Fails when it is incomplete, so that the write is undone.
Task<Result<>> pass_body_on(http::Exchange& exchange, sandbox::FileInput& input, std::uint64_t limit) {
  std::string chunk(kChunk, '\0');
  std::uint64_t passed = 0;
  while (true) {
    COVE_CO_TRY(const auto size, co_await exchange.read_body_some(chunk.data(), chunk.size()));
    if (size == 0) break;
    passed += size;
    if (passed > limit) co_return too_large(limit);
    const auto written = co_await input.write(chunk.substr(0, size));
    if (!written) break;  // it has found fault already; finish() says which
  }
  co_return Result<>();
}

struct Range {
  std::optional<std::uint64_t> first;  // none: the last `last` bytes
  std::optional<std::uint64_t> last;
};

// One byte range. Several ranges and invalid ones are ignored (RFC 9110, 14.2).
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

}  // namespace

Task<Answer> upload_archive(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto work, co_await begin_file_work(services, exchange));
  COVE_CO_TRY(const auto dest, path_query(exchange.request(), "dest", "/workspace"));
  const auto config = services.config();
  const auto& limits = config->upload;
  if (exchange.content_length().value_or(0) > limits.max_body_bytes) {
    co_return too_large(limits.max_body_bytes);
  }
  const sandbox::UploadLimits unpacked{.bytes = limits.max_unpacked_bytes,
                                       .members = limits.max_members,
                                       .depth = limits.max_depth,
                                       .ratio = limits.max_ratio};
  COVE_CO_TRY(auto archive, co_await work.files.upload(dest, unpacked));
  COVE_CO_CHECK(co_await pass_body_on(exchange, archive, limits.max_body_bytes));
  COVE_CO_TRY(const auto uploaded, co_await archive.finish());
  co_return http::json_response(200, json::object{{"files", uploaded.files}, {"bytes", uploaded.bytes}});
}

Task<Answer> download_archive(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto work, co_await begin_file_work(services, exchange));
  COVE_CO_TRY(const auto src, path_query(exchange.request(), "src", "/workspace"));
  COVE_CO_TRY(auto archive, co_await work.files.download(src));
  auto bytes = co_await archive.next();
  if (bytes.empty()) {
    COVE_CO_CHECK(co_await archive.rest());
    co_return fail(Errc::io, "the archive is empty");
  }
  http::Response head{.status = 200, .content_type = "application/x-tar"};
  if (!co_await exchange.start(std::move(head))) co_return std::nullopt;
  for (; !bytes.empty(); bytes = co_await archive.next()) {
    if (!co_await exchange.write(bytes)) co_return std::nullopt;
  }
  // A truncated archive must not look complete.
  if (const auto ended = co_await archive.rest(); !ended) {
    exchange.abort();
    co_return std::nullopt;
  }
  [[maybe_unused]] const auto done = co_await exchange.finish();
  co_return std::nullopt;
}

Task<Answer> read_file(Services& services, http::Exchange& exchange) {
  const auto& request = exchange.request();
  COVE_CO_TRY(const auto work, co_await begin_file_work(services, exchange));
  COVE_CO_TRY(const auto path, path_query(request, "path", ""));
  auto range = parse_range(request.header("Range"));
  constexpr sandbox::ByteRange nothing{.offset = 0, .length = 0};
  // If-Range: the range only applies if the file is still the version that the client has.
  if (const auto wanted = request.header("If-Range"); range && !wanted.empty()) {
    COVE_CO_TRY(const auto now, co_await work.files.read(path, nothing));
    if (wanted != etag_of(now.facts())) range.reset();
  }
  std::uint64_t offset = 0;
  std::uint64_t length = INT64_MAX;
  if (range && !range->first) {
    // A suffix range needs the file's size.
    COVE_CO_TRY(const auto now, co_await work.files.read(path, nothing));
    offset = now.facts().size - std::min(now.facts().size, *range->last);
  } else if (range) {
    offset = *range->first;
    if (range->last) length = std::min<std::uint64_t>(*range->last - offset, INT64_MAX - 1) + 1;
  }
  const sandbox::ByteRange part{.offset = std::min<std::uint64_t>(offset, INT64_MAX),
                                .length = request.method == http::verb::head ? 0 : length};
  COVE_CO_TRY(auto file, co_await work.files.read(path, part));
  const auto& facts = file.facts();

  const auto etag = etag_of(facts);
  http::Response head{.status = 200, .content_type = "application/octet-stream"};
  head.headers = {{"ETag", etag},
                  {"Last-Modified", http::http_date(facts.mtime_ns)},
                  {"Accept-Ranges", "bytes"},
                  {"Cache-Control", "no-cache"}};
  if (names_tag(request.header("If-None-Match"), etag)) {
    head.status = 304;
    co_return head;
  }
  if (range && offset >= facts.size) {
    auto out = http::error_response(416, "invalid", "Range is outside the file");
    out.headers.emplace_back("Content-Range", fmt::format("bytes */{}", facts.size));
    co_return out;
  }
  length = std::min(length, facts.size - std::min(offset, facts.size));
  if (range) {
    head.status = 206;
    head.headers.emplace_back("Content-Range", fmt::format("bytes {}-{}/{}", offset, offset + length - 1, facts.size));
  }
  if (!co_await exchange.start(std::move(head), length)) co_return std::nullopt;
  if (request.method == http::verb::head) {
    [[maybe_unused]] const auto done = co_await exchange.finish();
    co_return std::nullopt;
  }
  // A file that shrinks while it is read must not give a short answer that looks complete.
  std::uint64_t left = length;
  while (left > 0) {
    const auto bytes = co_await file.next();
    if (bytes.empty()) {
      exchange.abort();
      co_return std::nullopt;
    }
    const auto wanted =
        std::string_view(bytes).substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(left, bytes.size())));
    if (!co_await exchange.write(wanted)) co_return std::nullopt;
    left -= wanted.size();
  }
  [[maybe_unused]] const auto done = co_await exchange.finish();
  co_return std::nullopt;
}

Task<Answer> write_file(Services& services, http::Exchange& exchange) {
  const auto& request = exchange.request();
  COVE_CO_TRY(const auto work, co_await begin_file_work(services, exchange));
  COVE_CO_TRY(const auto path, path_query(request, "path", ""));
  COVE_CO_TRY(const auto append, flag_query(request, "append"));
  const auto mode = request.query("mode").value_or("0644");
  if (mode.empty() || mode.size() > 4 || mode.find_first_not_of("01234567") != std::string::npos)
    co_return fail(Errc::invalid, "mode must be octal, for example 0644");
  sandbox::WriteOptions options{.mode = append ? sandbox::WriteMode::append : sandbox::WriteMode::replace};
  std::from_chars(mode.data(), mode.data() + mode.size(), options.permissions, 8);
  const auto most = services.config()->upload.max_body_bytes;
  if (exchange.content_length().value_or(0) > most) co_return too_large(most);
  COVE_CO_TRY(auto file, co_await work.files.write(path, options));
  COVE_CO_CHECK(co_await pass_body_on(exchange, file, most));
  COVE_CO_TRY(const auto entry, co_await file.finish());
  co_return entry_answer(entry);
}

}  // namespace cove::doors::sandboxes
