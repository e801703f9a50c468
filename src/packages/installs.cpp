#include "packages/installs.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <deque>
#include <optional>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "guest/channel.hpp"
#include "json/fields.hpp"
#include "json/shape.hpp"
#include "packages/index_page.hpp"

namespace cove::packages {
namespace {

namespace json = boost::json;
using cove::json::text_of;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostPackages = 200;
constexpr std::uint64_t kMostPage = 16U << 20;
constexpr std::size_t kMostRequests = 5000;
constexpr std::size_t kMostLinks = 200'000;
constexpr std::size_t kMostMessage = 4U << 20;
constexpr std::size_t kMostElements = 100'000;  // of one message
constexpr std::size_t kMostErrors = 16U << 10;
constexpr std::size_t kMostInstalled = 5000;
constexpr unsigned kRedirects = 5;
constexpr milliseconds kLook{250};
constexpr std::string_view kIndexPrefix = "/index/";
constexpr std::string_view kFilePrefix = "/files/";

// The talk with one pip: what it asks for is answered in turn. Everything it says is the sandbox's word.
class Serving : public outbound::Receiver {
 public:
  Serving(outbound::Client& client, const InstallRequest& request, std::string tenant,
          std::shared_ptr<sandbox::Process> process)
      : client_(client),
        request_(request),
        tenant_(std::move(tenant)),
        process_(std::move(process)),
        reader_(process_, 1),
        messages_(kMostMessage),
        until_(Clock::now() + request.timeout) {}

  // To the end of the process.
  async::Task<> run() {
    while (true) {
      const auto message = co_await next();
      if (!message) co_return;
      const auto type = text_of(*message, "type");
      if (type == "get") co_await answer(text_of(*message, "path"));
      if (type == "done") done = *message;
    }
  }

  std::optional<json::object> done;
  std::string errors;   // what pip printed last
  std::string refusal;  // the last thing that we did not give it

 private:
  // The next message; nullopt at the end.
  async::Task<std::optional<json::object>> next() {
    while (waiting_.empty()) {
      const auto batch = reader_.take(256U << 10);
      for (const auto& event : batch.events) hear(event);
      if (!waiting_.empty()) break;
      if (batch.over) co_return std::nullopt;
      if (batch.events.empty()) co_await process_->changed().wait_until(Clock::now() + kLook);
    }
    auto message = std::move(waiting_.front());
    waiting_.pop_front();
    co_return message;
  }

  void hear(const sandbox::Event& event) {
    if (event.kind == sandbox::Event::Kind::out || event.kind == sandbox::Event::Kind::err) {
      errors += event.bytes;
      if (errors.size() > kMostErrors) errors.erase(0, errors.size() - kMostErrors);
    }
    if (event.kind != sandbox::Event::Kind::channel) return;
    const auto message = messages_.add(event.bytes);
    if (!message || !*message || cove::json::shape_of(**message).elements > kMostElements) return;
    boost::system::error_code failed;
    const auto said = json::parse(**message, failed);
    if (failed || !said.is_object()) return;
    // One question at a time is all there is: who floods is not heard.
    if (waiting_.size() < 4) waiting_.push_back(said.as_object());
  }

  // False: it has ended.
  bool tell(const json::object& message) { return process_->send(json::serialize(message)).has_value(); }

  void refuse(unsigned status, std::string why) {
    if (!why.empty()) refusal = std::move(why);
    tell({{"status", status}, {"over", true}});
  }

  async::Task<> answer(std::string path) {
    if (++requests_ > kMostRequests) co_return refuse(429, "more requests than an install needs");
    path = path.substr(0, path.find('?'));
    if (path.starts_with(kIndexPrefix)) co_return co_await answer_page(path.substr(kIndexPrefix.size()));
    if (path.starts_with(kFilePrefix)) co_return co_await answer_file(path.substr(kFilePrefix.size()));
    refuse(404, "");
  }

  outbound::Request ask_for(outbound::Url url) const {
    outbound::Request request{.url = std::move(url), .reach = request_.reach, .tenant = tenant_, .until = until_};
    request.redirects = kRedirects;
    return request;
  }

  async::Task<> answer_page(std::string project) {
    while (project.ends_with('/')) project.pop_back();
    if (!requirement(project, "") || project_name(project) != project) co_return refuse(404, "");
    auto url = request_.index;
    url.target = fmt::format("{}{}/", url.target.substr(0, url.target.find('?')), project);
    auto request = ask_for(std::move(url));
    request.headers = {{"Accept", "text/html"}};
    request.max_body_bytes = std::min(kMostPage, left());
    const auto page = co_await client_.send(std::move(request));
    if (!page) co_return refuse(502, page.error().message);
    downloaded_ += page->body.size();
    if (page->head.status != 200)
      co_return refuse(page->head.status == 404 ? 404 : 502,
                       fmt::format("the index answered {} for {}", page->head.status, project));
    auto links = read_index_page(page->body, page->head.url);
    if (!links) co_return refuse(502, links.error().message);
    if (links_.size() + links->size() > kMostLinks) co_return refuse(502, "the index has too many links");
    const auto html = write_index_page(*links, kFilePrefix, links_.size());
    for (auto& link : *links) links_.push_back(std::move(link));
    if (!tell({{"status", 200}, {"content_type", "text/html"}, {"size", html.size()}})) co_return;
    if (!co_await wants_more()) co_return;
    for (std::size_t at = 0; at < html.size(); at += kPiece) {
      const auto piece = html.substr(at, kPiece);
      const bool last = at + kPiece >= html.size();
      if (!tell({{"data", base64(piece)}, {"over", last}})) co_return;
      if (!last && !co_await wants_more()) co_return;
    }
  }

  async::Task<> answer_file(std::string path) {
    std::size_t number = 0;
    const auto failed = std::from_chars(path.data(), path.data() + path.size(), number).ec;
    if (failed != std::errc() || number >= links_.size() || path != fmt::format("{}/{}", number, links_[number].file))
      co_return refuse(404, "");
    auto request = ask_for(links_[number].url);
    request.max_body_bytes = left();
    begun_ = false;
    stopped_ = false;
    const auto sent = co_await client_.send(std::move(request), *this);
    if (stopped_) co_return;
    if (!sent) refusal = sent.error().message;
    if (!begun_) co_return refuse(502, refusal);
    // The piece that was asked for is the last: empty, or the news that it broke.
    tell({{"data", ""}, {"over", true}, {"failed", !sent}});
  }

  // As Receiver: a wheel on its way. Each piece is sent when it is asked for, so that none wait here.
  async::Task<Result<>> begin(outbound::Head head) override {
    if (head.status != 200) co_return fail(Errc::unavailable, fmt::format("a wheel was answered with {}", head.status));
    begun_ = true;
    json::object told{{"status", 200}, {"content_type", "application/octet-stream"}};
    std::uint64_t size = 0;
    const auto length = head.header("Content-Length");
    if (!length.empty() && std::from_chars(length.data(), length.data() + length.size(), size).ec == std::errc())
      told["size"] = size;
    if (!tell(told)) co_return gone();
    if (!co_await wants_more()) co_return gone();
    co_return Result<>();
  }
  async::Task<Result<>> take(std::string bytes) override {
    downloaded_ += bytes.size();
    if (!tell({{"data", base64(bytes)}})) co_return gone();
    if (!co_await wants_more()) co_return gone();
    co_return Result<>();
  }

  Result<> gone() {
    stopped_ = true;
    return fail(Errc::unavailable, "nobody takes it any more");
  }

  // False: it does not, and was told that this is the end.
  async::Task<bool> wants_more() {
    const auto message = co_await next();
    if (message && text_of(*message, "type") == "more") co_return true;
    if (message) tell({{"over", true}, {"failed", true}});
    co_return false;
  }

  [[nodiscard]] std::uint64_t left() const {
    return request_.max_download_bytes - std::min(request_.max_download_bytes, downloaded_);
  }

  static constexpr std::size_t kPiece = 64U << 10;
  outbound::Client& client_;
  const InstallRequest& request_;
  std::string tenant_;
  std::shared_ptr<sandbox::Process> process_;
  sandbox::Reader reader_;
  guest::MessageReader messages_;
  Clock::time_point until_;
  std::deque<json::object> waiting_;
  std::vector<IndexLink> links_;
  std::size_t requests_ = 0;
  std::uint64_t downloaded_ = 0;
  bool begun_ = false;
  bool stopped_ = false;
};

// What pip installed, as far as it can be believed: it is shown to whoever asked, and nothing follows from it.
json::array installed_of(const json::object& done) {
  json::array out;
  const auto* list = done.if_contains("installed");
  if (list == nullptr || !list->is_array()) return out;
  for (const auto& entry : list->as_array()) {
    if (!entry.is_object() || out.size() >= kMostInstalled) continue;
    const auto& one = entry.as_object();
    out.push_back(json::object{{"name", text_of(one, "name").substr(0, 200)},
                               {"version", text_of(one, "version").substr(0, 200)},
                               {"location", text_of(one, "location").substr(0, 500)}});
  }
  return out;
}

json::array shown(const std::vector<Package>& packages) {
  json::array out;
  for (const auto& package : packages) {
    json::object one{{"name", package.name}, {"version", nullptr}};
    if (!package.version.empty()) one["version"] = package.version;
    out.push_back(std::move(one));
  }
  return out;
}

// What was asked for before, with what is asked for now: of two of one name the newer.
std::vector<Package> merged(const json::object& before, std::vector<Package> now) {
  std::vector<Package> all;
  const auto* list = before.if_contains("requested");
  if (list != nullptr && list->is_array()) {
    for (const auto& entry : list->as_array()) {
      if (entry.is_object()) all.push_back({text_of(entry.as_object(), "name"), text_of(entry.as_object(), "version")});
    }
  }
  for (auto& package : now) {
    const auto same = std::ranges::find_if(
        all, [&](const Package& other) { return project_name(other.name) == project_name(package.name); });
    if (same != all.end())
      *same = std::move(package);
    else
      all.push_back(std::move(package));
  }
  return all;
}

}  // namespace

namespace {

Result<outbound::Reach> reach_of(const std::vector<std::string>& allowed) {
  outbound::Reach reach;
  for (const auto& text : allowed) {
    COVE_TRY(auto place, outbound::parse_place(text));
    reach.places.push_back(std::move(place));
  }
  return reach;
}

}  // namespace

Result<> choose_index(InstallRequest& request, const config::Dependencies& config,
                      const std::optional<std::string>& given, std::string_view field) {
  if (!given && config.index.empty())
    return fail(Errc::invalid, fmt::format("{} must be given: this server has no package index of its own", field));
  auto index = outbound::parse_url(given.value_or(config.index));
  if (!index)
    return given ? fail(Errc::invalid, fmt::format("{}: {}", field, index.error().message))
                 : tl::unexpected<Error>(index.error());
  COVE_TRY(request.reach, reach_of(config.allow));
  const auto own = outbound::parse_url(config.index);
  if (own && own->same_origin(*index)) request.reach.places.push_back({.host = index->host, .port = index->port});
  boost::system::error_code is_name;
  const auto literal = boost::asio::ip::make_address(index->host, is_name);
  if (!is_name && outbound::dialable(*index, request.reach, {literal}).empty())
    return fail(Errc::invalid,
                fmt::format("{}: {} is no public address, and is not allowed here", field, index->authority()));
  if (!index->target.ends_with('/')) index->target += '/';
  request.index = std::move(*index);
  request.max_download_bytes = config.max_download_bytes;
  return {};
}

Result<milliseconds> install_time(const config::Dependencies& config, std::optional<double> seconds,
                                  std::string_view field) {
  if (!seconds) return config.timeout;
  if (!(*seconds > 0)) return fail(Errc::invalid, fmt::format("{} must be greater than 0", field));
  if (*seconds * 1000 > static_cast<double>(config.max_timeout.count())) return config.max_timeout;
  return milliseconds(std::max<std::int64_t>(1, std::llround(*seconds * 1000)));
}

void Installs::write(const sandbox::Sandbox& sandbox, const json::object& status) {
  const auto written = registry_.store().sandboxes().set_dependencies(sandbox.row().id, json::serialize(status));
  if (!written && written.error().code != Errc::not_found)
    log_(fmt::format("dependencies not noted sandbox={} reason=\"{}\"", sandbox.row().id, written.error().message));
}

json::object Installs::status(const sandbox::Sandbox& sandbox) {
  if (const auto found = under_way_.find(sandbox.row().id); found != under_way_.end()) return found->second.status;
  boost::system::error_code failed;
  const auto text = registry_.store().sandboxes().dependencies(sandbox.row().id);
  auto kept = text && !text->empty() ? json::parse(*text, failed) : json::value();
  if (failed || !kept.is_object())
    return {{"status", "none"}, {"requested", json::array()}, {"installed", json::array()}};
  auto& object = kept.as_object();
  // Nobody is at it: a server before us was.
  if (object["status"] == "pending" || object["status"] == "installing") {
    object["status"] = "failed";
    object["error"] = "the server ended during the install";
  }
  return object;
}

// One holds pages of its index in our memory.
Installs::Installs(boost::asio::any_io_executor executor, sandbox::Registry& registry, outbound::Client& client,
                   Options options, Log log)
    : registry_(registry), client_(client), log_(std::move(log)), turns_(std::move(executor), {}) {
  set_options(options);
}

void Installs::set_options(Options options) {
  options_ = options;
  turns_.set_options({.at_once = options.max_concurrent, .waiting = UINT32_MAX, .keeps_some_free = false});
}

Result<> Installs::begin(std::shared_ptr<sandbox::Sandbox> sandbox, InstallRequest request) {
  if (under_way_.contains(sandbox->row().id))
    return fail(Errc::conflict, "an install is under way in this sandbox: wait for its end");
  if (sandbox->state() == sandbox::State::paused) return fail(Errc::conflict, "the sandbox is paused: resume it first");
  const auto before = status(*sandbox);
  request.packages = merged(before, std::move(request.packages));
  if (request.packages.size() > kMostPackages)
    return fail(Errc::over_limit, fmt::format("a sandbox may ask for {} packages", kMostPackages));
  const auto* installed = before.if_contains("installed");
  json::object now{{"status", "pending"},
                   {"requested", shown(request.packages)},
                   {"index", request.index.text()},
                   {"installed", installed == nullptr ? json::value(json::array()) : *installed},
                   {"error", nullptr},
                   {"startedAt", iso_time(unix_millis())},
                   {"completedAt", nullptr}};
  write(*sandbox, now);
  under_way_.emplace(sandbox->row().id, UnderWay{.status = std::move(now)});
  registry_.tasks().spawn("install packages", run(std::move(sandbox), std::move(request)));
  return {};
}

void Installs::cancel(const sandbox::Sandbox& sandbox) {
  const auto found = under_way_.find(sandbox.row().id);
  if (found == under_way_.end()) return;
  found->second.cancelled = true;
  if (found->second.process) found->second.process->stop(guest::Reason::cancelled);
}

async::Task<> Installs::run(std::shared_ptr<sandbox::Sandbox> sandbox, InstallRequest request) {
  const sandbox::Sandbox::Activity activity(sandbox);
  auto& under_way = under_way_.at(sandbox->row().id);
  auto& now = under_way.status;
  sandbox::ProcessRequest wanted{.kind = sandbox::ProcessKind::internal, .argv = {"python3"}};
  wanted.output_limit = kMostErrors * 4;
  wanted.delivery = sandbox::Delivery::everything;
  auto first = sandbox->first_message("install", wanted);
  json::array specs;
  for (const auto& package : request.packages) specs.emplace_back(requirement(package.name, package.version).value());
  first["packages"] = std::move(specs);
  std::string error;
  std::optional<json::object> done;
  const auto gone = [&under_way, sandbox] {
    return under_way.cancelled || sandbox->state() == sandbox::State::deleting ||
           sandbox->state() == sandbox::State::gone;
  };
  const auto turn =
      co_await turns_.enter(sandbox->tenant(), {.at_once = options_.tenant_concurrent}, gone, request.timeout);
  Result<std::shared_ptr<sandbox::Process>> started = fail(Errc::unavailable, "too many installs were under way");
  if (turn) started = co_await sandbox->start_python(std::move(wanted));
  if (!started) {
    error = started.error().message;
  } else {
    const auto process = *started;
    under_way.process = process;
    if (under_way.cancelled) process->stop(guest::Reason::cancelled);
    now["status"] = "installing";
    write(*sandbox, now);
    process->limit_time(request.timeout);
    if (auto sent = process->send(json::serialize(first)); !sent) error = sent.error().message;
    Serving serving(client_, request, sandbox->tenant(), process);
    co_await serving.run();
    done = std::move(serving.done);
    const auto& end = *process->end();
    const auto* code = done ? done->if_contains("exit_code") : nullptr;
    if (end.reason != guest::Reason::exited)
      error = fmt::format("the install ended by {}", name_of(end.reason));
    else if (code == nullptr || !code->is_int64())
      error = "the install ended without saying how";
    else if (code->as_int64() != 0)
      error = serving.refusal.empty() ? "pip failed" : serving.refusal;
    if (!error.empty()) {
      const auto said = replace_invalid_utf8(serving.errors);
      now["output"] = said;
    }
    sandbox->forget(process);
  }
  if (done && error.empty()) now["installed"] = installed_of(*done);
  now["status"] = error.empty() ? "completed" : "failed";
  if (!error.empty()) now["error"] = replace_invalid_utf8(error);
  now["completedAt"] = iso_time(unix_millis());
  write(*sandbox, now);
  under_way_.erase(sandbox->row().id);
}

}  // namespace cove::packages
