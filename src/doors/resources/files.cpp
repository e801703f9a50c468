#include <array>

#include "doors/resources/answers.hpp"
#include "http/disposition.hpp"
#include "http/mime.hpp"
#include "http/parts.hpp"

namespace cove::doors::resources {
namespace {

constexpr std::string_view kNoFile = "File not found";

// What is there and is no regular file is no file.
http::Response file_trouble(const Error& error) {
  return error.code == Errc::invalid ? detail(404, kNoFile) : answer_to(error, kNoFile);
}

std::string media_type(std::string_view path) {
  std::string type(http::mime_of(path));
  if (type.starts_with("text/")) type += "; charset=utf-8";
  return type;
}

Task<Answer> upload(Services& services, http::Exchange& exchange) {
  COVE_OR_TRY(const auto limit, checked_length(services, exchange));
  COVE_OR_TRY(const auto work, co_await begin_work(services, exchange));
  COVE_OR_TRY(const auto path, path_of(work, exchange.request()));
  if (path == work.sandbox->row().directory) co_return detail(400, "Invalid path: it does not name a file");
  // A link that leads out is not replaced, though nothing would be written behind it.
  const auto there = co_await work.files.read(path, sandbox::ByteRange{});
  if (!there && there.error().sys_errno == EXDEV) co_return detail(400, kEscapes);
  auto file = co_await work.files.write(path, {});
  if (!file) co_return answer_to(file.error(), kNoFile);
  if (const auto passed = co_await pass_body_on(exchange, *file, limit); !passed)
    co_return answer_to(passed.error(), kNoFile);
  if (const auto written = co_await file->finish(); !written) co_return answer_to(written.error(), kNoFile);
  const auto message = "File uploaded to " + exchange.request().param("relpath");
  co_return json(200, fmt::format(R"({{"message":{}}})", fastapi::json_text(message)));
}

Task<Answer> download(Services& services, http::Exchange& exchange) {
  COVE_OR_TRY(const auto work, co_await begin_work(services, exchange));
  COVE_OR_TRY(const auto path, path_of(work, exchange.request()));
  auto file = co_await work.files.read(path);
  if (!file) co_return file_trouble(file.error());
  http::Response head{.status = 200, .content_type = media_type(path)};
  head.headers.emplace_back("Content-Disposition", http::attachment(path.substr(path.rfind('/') + 1)));
  co_await http::send_parts(exchange, std::move(head), file->facts().size, [&file] { return file->next(); });
  co_return std::nullopt;
}

Task<Answer> remove(Services& services, http::Exchange& exchange) {
  COVE_OR_TRY(const auto work, co_await begin_work(services, exchange));
  COVE_OR_TRY(const auto path, path_of(work, exchange.request()));
  // Whether it is a file, links followed, and one inside.
  const auto there = co_await work.files.read(path, sandbox::ByteRange{});
  if (!there) co_return file_trouble(there.error());
  const auto removed = co_await work.files.remove(path, sandbox::Recursive::no);
  if (!removed) co_return answer_to(removed.error(), kNoFile);
  co_return http::no_content();
}

constexpr auto kFileRoutes = std::to_array<Route>({
    {verb::post, "/files/{relpath}", answered<upload>, kScopedRest},
    {verb::get, "/files/{relpath}", answered<download>, kScopedRest},
    {verb::delete_, "/files/{relpath}", answered<remove>, kScopedRest},
    {verb::post, "/v1/sandboxes/{id}/resources/files/{relpath}", answered<upload>, kRest},
    {verb::get, "/v1/sandboxes/{id}/resources/files/{relpath}", answered<download>, kRest},
    {verb::delete_, "/v1/sandboxes/{id}/resources/files/{relpath}", answered<remove>, kRest},
});

}  // namespace

Routes file_routes() {
  return kFileRoutes;
}

}  // namespace cove::doors::resources
