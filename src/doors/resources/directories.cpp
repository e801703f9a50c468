#include <array>

#include "doors/resources/answers.hpp"
#include "doors/resources/requests.hpp"
#include "http/disposition.hpp"

namespace cove::doors::resources {
namespace {

constexpr std::string_view kNoDirectory = "Directory not found";

http::Response archive_trouble(const Error& error) {
  const auto member = error.code == Errc::invalid ? named_member(error.message) : std::string();
  if (!member.empty()) return detail(400, "Invalid tar member: " + member);
  return answer_to(error, kNoDirectory);
}

Task<Answer> upload(Services& services, http::Exchange& exchange) {
  COVE_OR_TRY(const auto limit, checked_length(services, exchange));
  COVE_OR_TRY(const auto work, co_await begin_work(services, exchange));
  COVE_OR_TRY(const auto path, path_of(work, exchange.request()));
  const auto config = services.config();
  const auto& upload = config->upload;
  const sandbox::UploadLimits limits{.bytes = upload.max_unpacked_bytes,
                                     .members = upload.max_members,
                                     .depth = upload.max_depth,
                                     .ratio = upload.max_ratio,
                                     .absolute_names = false};
  auto archive = co_await work.files.upload(path, limits);
  if (!archive) co_return archive_trouble(archive.error());
  if (const auto passed = co_await pass_body_on(exchange, *archive, limit); !passed)
    co_return archive_trouble(passed.error());
  if (const auto unpacked = co_await archive->finish(); !unpacked) co_return archive_trouble(unpacked.error());
  const auto message = "Directory uploaded to " + exchange.request().param("relpath");
  co_return json(200, fmt::format(R"({{"message":{}}})", fastapi::json_text(message)));
}

Task<Answer> download(Services& services, http::Exchange& exchange) {
  COVE_OR_TRY(const auto work, co_await begin_work(services, exchange));
  COVE_OR_TRY(const auto path, path_of(work, exchange.request()));
  auto archive = co_await work.files.download(path, sandbox::ArchiveContent::files);
  if (!archive) co_return answer_to(archive.error(), kNoDirectory);
  auto bytes = co_await archive->next();
  if (bytes.empty()) {
    const auto ended = co_await archive->rest();
    if (ended) co_return detail(500, "the archive is empty");
    // What is there and is no directory is none.
    co_return ended.error().code == Errc::invalid ? detail(404, kNoDirectory) : answer_to(ended.error(), kNoDirectory);
  }
  http::Response head{.status = 200, .content_type = "application/x-gzip"};
  head.headers.emplace_back("Content-Disposition", http::attachment(path.substr(path.rfind('/') + 1) + ".tar.gz"));
  if (!co_await exchange.start(std::move(head))) co_return std::nullopt;
  for (; !bytes.empty(); bytes = co_await archive->next()) {
    if (!co_await exchange.write(bytes)) co_return std::nullopt;
  }
  // A truncated archive must not look complete.
  if (const auto ended = co_await archive->rest(); !ended) {
    exchange.abort();
    co_return std::nullopt;
  }
  [[maybe_unused]] const auto done = co_await exchange.finish();
  co_return std::nullopt;
}

constexpr auto kDirectoryRoutes = std::to_array<Route>({
    {verb::post, "/directories/{relpath}", answered<upload>, kScopedRest},
    {verb::get, "/directories/{relpath}", answered<download>, kScopedRest},
    {verb::post, "/v1/sandboxes/{id}/resources/directories/{relpath}", answered<upload>, kRest},
    {verb::get, "/v1/sandboxes/{id}/resources/directories/{relpath}", answered<download>, kRest},
});

}  // namespace

Routes directory_routes() {
  return kDirectoryRoutes;
}

}  // namespace cove::doors::resources
