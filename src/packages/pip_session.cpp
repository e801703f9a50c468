#include "packages/pip_session.hpp"

#include <algorithm>
#include <charconv>

#include "base/text.hpp"
#include "json/fields.hpp"
#include "json/shape.hpp"

namespace cove::packages {

namespace json = boost::json;
using cove::json::text_of;

namespace {

constexpr std::uint64_t kMaxPageBytes = 16U << 20;
constexpr std::size_t kMaxRequests = 5000;
constexpr std::size_t kMaxSessionLinks = 200'000;
constexpr std::size_t kMaxMessageBytes = 4U << 20;
constexpr std::size_t kMaxElements = 100'000;  // of one message
constexpr std::size_t kMaxSessionOutput = 16U << 10;
constexpr std::size_t kMaxQueue = 4;
constexpr unsigned kRedirects = 5;
constexpr std::size_t kReadSize = 256U << 10;
constexpr std::size_t kPiece = 64U << 10;
constexpr std::chrono::milliseconds kPollInterval{250};
constexpr std::string_view kIndexPrefix = "/index/";
constexpr std::string_view kFilePrefix = "/files/";

}  // namespace

PipSession::PipSession(outbound::Client& client, const InstallRequest& request, std::string tenant,
                       std::shared_ptr<sandbox::Process> process)
    : client_(client),
      request_(request),
      tenant_(std::move(tenant)),
      process_(std::move(process)),
      reader_(process_, 1),
      messages_(kMaxMessageBytes),
      deadline_(Clock::now() + request.timeout) {}

async::Task<> PipSession::run() {
  while (true) {
    const auto message = co_await next();
    if (!message) co_return;
    const auto type = text_of(*message, "type");
    if (type == "get") co_await answer(text_of(*message, "path"));
    if (type == "done") done = *message;
  }
}

async::Task<std::optional<json::object>> PipSession::next() {
  while (queue_.empty()) {
    const auto batch = reader_.take(kReadSize);
    for (const auto& event : batch.events) receive(event);
    if (!queue_.empty()) break;
    if (batch.over) co_return std::nullopt;
    if (batch.events.empty()) co_await process_->changed().wait_until(Clock::now() + kPollInterval);
  }
  auto message = std::move(queue_.front());
  queue_.pop_front();
  co_return message;
}

void PipSession::receive(const sandbox::Event& event) {
  if (event.kind == sandbox::Event::Kind::out || event.kind == sandbox::Event::Kind::err) {
    output += event.bytes;
    if (output.size() > kMaxSessionOutput) output.erase(0, output.size() - kMaxSessionOutput);
  }
  if (event.kind != sandbox::Event::Kind::channel) return;
  const auto message = messages_.add(event.bytes);
  if (!message || !*message || cove::json::shape_of(**message).elements > kMaxElements) return;
  boost::system::error_code failed;
  const auto value = json::parse(**message, failed);
  if (failed || !value.is_object()) return;
  // pip asks one question at a time: what is past a few is a flood, and dropped.
  if (queue_.size() < kMaxQueue) queue_.push_back(value.as_object());
}

bool PipSession::send(const json::object& message) {
  return process_->send(json::serialize(message)).has_value();
}

void PipSession::refuse(unsigned status, std::string reason) {
  if (!reason.empty()) refusal = std::move(reason);
  send({{"status", status}, {"over", true}});
}

async::Task<> PipSession::answer(std::string path) {
  if (++requests_ > kMaxRequests) co_return refuse(429, "pip sent too many requests");
  path = path.substr(0, path.find('?'));
  if (path.starts_with(kIndexPrefix)) co_return co_await answer_page(path.substr(kIndexPrefix.size()));
  if (path.starts_with(kFilePrefix)) co_return co_await answer_file(path.substr(kFilePrefix.size()));
  refuse(404, "");
}

outbound::Request PipSession::request_for(outbound::Url url) const {
  outbound::Request request{.url = std::move(url), .reach = request_.reach, .tenant = tenant_, .until = deadline_};
  request.redirects = kRedirects;
  return request;
}

async::Task<> PipSession::answer_page(std::string project) {
  while (project.ends_with('/')) project.pop_back();
  if (!requirement(project, "") || project_name(project) != project) co_return refuse(404, "");
  auto url = request_.index;
  url.target = fmt::format("{}{}/", url.target.substr(0, url.target.find('?')), project);
  auto request = request_for(std::move(url));
  request.headers = {{"Accept", "text/html"}};
  request.max_body_bytes = std::min(kMaxPageBytes, download_bytes_left());
  const auto page = co_await client_.send(std::move(request));
  if (!page) co_return refuse(502, page.error().message);
  downloaded_ += page->body.size();
  if (page->head.status != 200)
    co_return refuse(page->head.status == 404 ? 404 : 502,
                     fmt::format("the index answered {} for {}", page->head.status, project));
  auto links = read_index_page(page->body, page->head.url);
  if (!links) co_return refuse(502, links.error().message);
  if (links_.size() + links->size() > kMaxSessionLinks) co_return refuse(502, "the index has too many links");
  const auto html = write_index_page(*links, kFilePrefix, links_.size());
  for (auto& link : *links) links_.push_back(std::move(link));
  if (!send({{"status", 200}, {"content_type", "text/html"}, {"size", html.size()}})) co_return;
  if (!co_await wants_more()) co_return;
  for (std::size_t at = 0; at < html.size(); at += kPiece) {
    const auto piece = html.substr(at, kPiece);
    const bool last = at + kPiece >= html.size();
    if (!send({{"data", base64(piece)}, {"over", last}})) co_return;
    if (!last && !co_await wants_more()) co_return;
  }
}

async::Task<> PipSession::answer_file(std::string path) {
  std::size_t number = 0;
  const auto failed = std::from_chars(path.data(), path.data() + path.size(), number).ec;
  if (failed != std::errc() || number >= links_.size() || path != fmt::format("{}/{}", number, links_[number].file))
    co_return refuse(404, "");
  auto request = request_for(links_[number].url);
  request.max_body_bytes = download_bytes_left();
  begun_ = false;
  stopped_ = false;
  const auto sent = co_await client_.send(std::move(request), *this);
  if (stopped_) co_return;
  if (!sent) refusal = sent.error().message;
  if (!begun_) co_return refuse(502, refusal);
  // pip waits for one more piece: an empty last one, or the news that the download failed.
  send({{"data", ""}, {"over", true}, {"failed", !sent}});
}

async::Task<Result<>> PipSession::begin(outbound::Head head) {
  if (head.status != 200)
    co_return fail(Errc::unavailable, fmt::format("the download of a wheel got status {}", head.status));
  begun_ = true;
  json::object message{{"status", 200}, {"content_type", "application/octet-stream"}};
  std::uint64_t size = 0;
  const auto length = head.header("Content-Length");
  if (!length.empty() && std::from_chars(length.data(), length.data() + length.size(), size).ec == std::errc())
    message["size"] = size;
  if (!send(message)) co_return pip_is_gone();
  if (!co_await wants_more()) co_return pip_is_gone();
  co_return Result<>();
}

async::Task<Result<>> PipSession::take(std::string bytes) {
  downloaded_ += bytes.size();
  if (!send({{"data", base64(bytes)}})) co_return pip_is_gone();
  if (!co_await wants_more()) co_return pip_is_gone();
  co_return Result<>();
}

Result<> PipSession::pip_is_gone() {
  stopped_ = true;
  return fail(Errc::unavailable, "pip takes no more of it");
}

async::Task<bool> PipSession::wants_more() {
  const auto message = co_await next();
  if (message && text_of(*message, "type") == "more") co_return true;
  if (message) send({{"over", true}, {"failed", true}});
  co_return false;
}

std::uint64_t PipSession::download_bytes_left() const {
  return request_.max_download_bytes - std::min(request_.max_download_bytes, downloaded_);
}

}  // namespace cove::packages
