#include "mcp/peer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/random_name.hpp"
#include "mcp/envelope.hpp"
#include "mcp/form.hpp"
#include "mcp/rounds.hpp"

namespace cove::mcp {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxInBatch = 100;
constexpr std::size_t kMaxBatchBytes = std::size_t{8} << 20;  // of the answers
constexpr std::size_t kMaxCapabilities = std::size_t{64} << 10;
constexpr std::size_t kMaxCalls = 256;  // of one client at once
constexpr std::size_t kMaxSubscriptions = 100;
constexpr std::chrono::milliseconds kPollInterval{500};
constexpr std::array<std::string_view, 7> kRemoved{
    "initialize", "ping",        "logging/setLevel", "resources/subscribe", "resources/unsubscribe",
    "tasks/list", "tasks/result"};

std::optional<std::string_view> text_of(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  if (value == nullptr || !value->is_string()) return std::nullopt;
  return std::string_view(value->as_string());
}

json::object object_of(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value != nullptr && value->is_object() ? value->as_object() : json::object();
}

tl::unexpected<Fault> unknown_method(std::string_view method) {
  return fault(Code::method_not_found, fmt::format("Method not found: {}", method));
}

Or<Subscriptions> read_subscriptions(const json::object& params) {
  const auto* asked = params.if_contains("notifications");
  if (asked == nullptr || !asked->is_object())
    return fault(Code::invalid_params, "Invalid params: notifications must be an object");
  Subscriptions subscriptions;
  for (const auto& [name, into] : {std::pair{"toolsListChanged", &subscriptions.tools},
                                   {"promptsListChanged", &subscriptions.prompts},
                                   {"resourcesListChanged", &subscriptions.resources}}) {
    const auto* value = asked->as_object().if_contains(name);
    if (value != nullptr && !value->is_bool())
      return fault(Code::invalid_params, fmt::format("Invalid params: notifications.{} must be true or false", name));
    *into = value != nullptr && value->as_bool();
  }
  for (const auto& [name, into] :
       {std::pair{"resourceSubscriptions", &subscriptions.uris}, {"taskIds", &subscriptions.tasks}}) {
    const auto* value = asked->as_object().if_contains(name);
    if (value == nullptr) continue;
    const auto refused = fault(
        Code::invalid_params,
        fmt::format("Invalid params: notifications.{} must be a list of at most {} strings", name, kMaxSubscriptions));
    if (!value->is_array() || value->as_array().size() > kMaxSubscriptions) return refused;
    for (const auto& element : value->as_array()) {
      if (!element.is_string()) return refused;
      into->emplace(element.as_string());
    }
  }
  return subscriptions;
}

json::object to_json(const Subscriptions& subscriptions) {
  json::object said;
  if (subscriptions.tools) said["toolsListChanged"] = true;
  if (subscriptions.prompts) said["promptsListChanged"] = true;
  if (subscriptions.resources) said["resourcesListChanged"] = true;
  if (!subscriptions.uris.empty())
    said["resourceSubscriptions"] = json::array(subscriptions.uris.begin(), subscriptions.uris.end());
  if (!subscriptions.tasks.empty())
    said["taskIds"] = json::array(subscriptions.tasks.begin(), subscriptions.tasks.end());
  return said;
}

// Collects the answers to a batch, and sends them when its last reference goes.
class Batch : public Outlet {
 public:
  explicit Batch(std::shared_ptr<Outlet> outlet) : outlet_(std::move(outlet)) {}
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  ~Batch() override {
    if (!answers_.empty()) outlet_->send_batch(std::move(answers_));
  }
  void send(json::object message) override {
    if (message.contains("method")) return outlet_->send(std::move(message));
    const auto size = json::serialize(message).size();
    if (bytes_ + size > kMaxBatchBytes && message.contains("result"))
      message = error_message(message.at("id"),
                              {Code::internal, "The answers to this batch are too large: send this request on its own"},
                              UnknownId::null);
    else
      bytes_ += size;
    answers_.push_back(std::move(message));
  }

 private:
  void send_batch(json::array messages) override { outlet_->send_batch(std::move(messages)); }
  [[nodiscard]] bool carries_everything() const override { return outlet_->carries_everything(); }

  std::shared_ptr<Outlet> outlet_;
  json::array answers_;
  std::size_t bytes_ = 0;
};

}  // namespace

Peer::Peer(boost::asio::any_io_executor executor, async::TaskGroup& tasks, Service& service, Options options)
    : executor_(executor),
      tasks_(tasks),
      service_(service),
      service_life_(service.life()),
      options_(std::move(options)),
      connection_(random_name("")),
      changed_(executor),
      revision_(options_.assumed),
      inquiry_(std::make_shared<Inquiry>(options_.patience)) {}

Peer::~Peer() {
  cancel_all();
  if (!service_life_.expired()) service_.forget(connection_);
}

UnknownId Peer::unknown_id() const {
  return omits_unknown_ids(revision()) ? UnknownId::omitted : UnknownId::null;
}

void Peer::refuse(const Fault& fault, Outlet& outlet) {
  outlet.send(error_message(nullptr, fault, unknown_id()));
}

void Peer::cancel_all() {
  for (const auto& [id, call] : calls_) call->cancel();
}

void Peer::notify(std::string_view method, json::object params) {
  if (ready_ && spoken_on_) spoken_on_->send(notification_message(method, std::move(params)));
}

void Peer::disconnect() {
  disconnected_ = true;
  for (const auto& [id, call] : calls_) call->changed().notify_all();
}

void Peer::take(const json::value& value, std::shared_ptr<Outlet> outlet) {
  if (value.is_array())
    take_batch(value.as_array(), outlet);
  else
    take_one(value, outlet);
}

void Peer::take_batch(const json::array& batch, const std::shared_ptr<Outlet>& outlet) {
  const bool allowed = initialized() ? has_batches(revision()) : options_.may_be_bare;
  if (!allowed) return refuse({Code::invalid_request, "Invalid request: this revision has no batches"}, *outlet);
  if (batch.empty()) return refuse({Code::invalid_request, "Invalid request: an empty batch"}, *outlet);
  if (batch.size() > kMaxInBatch)
    return refuse(
        {Code::invalid_request, fmt::format("Invalid request: more than {} messages in a batch", kMaxInBatch)},
        *outlet);
  const auto gathered = std::make_shared<Batch>(outlet);
  for (const auto& element : batch) {
    const auto* object = element.if_object();
    const auto method = object != nullptr ? text_of(*object, "method") : std::nullopt;
    if (method == "initialize")
      gathered->send(error_message(object->contains("id") ? object->at("id") : nullptr,
                                   {Code::invalid_request, "Invalid request: initialize must not be in a batch"},
                                   unknown_id()));
    else
      take_one(element, gathered);
  }
}

void Peer::take_one(const json::value& value, const std::shared_ptr<Outlet>& outlet) {
  const bool lenient = options_.may_be_bare && !initialized();
  auto message = read_message(value, lenient ? Strictness::lenient : Strictness::strict);
  if (!message) {
    // Errors in notifications are not answered.
    const auto* object = value.if_object();
    if (object != nullptr && object->contains("method") && !object->contains("id")) return;
    return outlet->send(error_message(message.error().id, message.error().fault, unknown_id()));
  }
  if (message->kind == Message::Kind::response) return inquiry_->hear(*message);
  if (message->kind == Message::Kind::notification) return hear(*message);
  const auto refuse_it = [&](Code code, std::string why) {
    outlet->send(error_message(message->id, {code, std::move(why)}, unknown_id()));
  };
  const auto id = json::serialize(message->id);
  if (calls_.contains(id))
    return refuse_it(Code::invalid_request, "Invalid request: a request with this id is in progress");
  if (calls_.size() >= kMaxCalls)
    return refuse_it(Code::internal, fmt::format("The limit of {} concurrent requests is reached", kMaxCalls));
  auto request_memory = service_.request_memory.take(options_.tenant, bytes_of(value));
  if (!request_memory)
    return refuse_it(Code::internal, "The concurrent requests are too large: wait for answers and try again");
  const auto call = std::make_shared<Call>(executor_, outlet);
  call->memory_ = std::move(request_memory);
  call->revision = revision();
  call->bare = !initialized();
  call->tenant = options_.tenant;
  call->key_id = options_.key_id;
  call->connection = connection_;
  call->id = message->id;
  call->method = std::move(message->method);
  call->params = std::move(message->params);
  call->capabilities = capabilities_;
  call->client = client_;
  call->level_ = level_;
  call->subscriber = subscriber_;
  if (initialized() && outlet->carries_everything()) call->ask_by(inquiry_);
  if (const auto* meta = meta_of(call->params)) {
    const auto* token = meta->if_contains("progressToken");
    if (token != nullptr && (token->is_string() || token->is_int64() || token->is_uint64())) call->token_ = *token;
  }
  // Handled at once: the next messages are read by the negotiated revision.
  if (call->method == "initialize" && !is_modern(*call)) {
    auto result = initialize(call->params);
    if (!result) return refuse_it(result.error().code, result.error().message);
    return outlet->send(result_message(message->id, std::move(*result)));
  }
  calls_.emplace(id, call);
  tasks_.spawn("serve an MCP request", serve(shared_from_this(), call, std::move(message->id)));
}

void Peer::hear(const Message& notification) {
  if (notification.method == "notifications/initialized" || notification.method == "initialized")
    ready_ = initialized();
  if (notification.method != "notifications/cancelled") return;
  const auto* id = notification.params.if_contains("requestId");
  if (id == nullptr) return;
  const auto found = calls_.find(json::serialize(*id));
  if (found != calls_.end()) found->second->cancel();
}

bool Peer::is_modern(Call& call) const {
  return has_envelope(call.params) && enter_envelope(call);
}

Task<> Peer::serve(std::shared_ptr<Peer> self, std::shared_ptr<Call> call, json::value id) {
  Or<> result = fault(Code::internal, "Internal error");
  std::exception_ptr escaped;
  try {
    result = co_await self->answer(*call);
  } catch (...) {
    escaped = std::current_exception();
  }
  self->calls_.erase(json::serialize(id));
  self->changed_.notify_all();
  if (!call->cancelled()) {
    if (result)
      call->outlet_->send(result_message(id, std::move(*result)));
    else
      call->outlet_->send(error_message(id, result.error(), self->unknown_id()));
  }
  if (escaped) std::rethrow_exception(escaped);
}

Task<Or<>> Peer::answer(Call& call) {
  if (has_envelope(call.params)) {
    if (auto entered = enter_envelope(call); !entered) co_return tl::unexpected<Fault>(entered.error());
    if (std::ranges::count(kRemoved, call.method) != 0) co_return unknown_method(call.method);
  } else {
    if (call.method == "ping") co_return json::object();
    if (call.method == "logging/setLevel") co_return set_level(call.params);
    if (call.method == "server/discover") co_return tl::unexpected<Fault>(missing_envelope());
  }
  Or<> result;
  if (call.method == "server/discover")
    result = discover();
  else if (call.method == "subscriptions/listen" && modern(call.revision))
    result = co_await listen(call);
  else
    result = co_await service_.serve(call);
  if (!result) co_return result;
  auto fitted = fit(std::move(*result), call.method, call.revision, call.bare);
  if (modern(call.revision)) add_envelope(fitted, service_.info());
  co_return fitted;
}

Or<> Peer::initialize(const json::object& params) {
  if (initialized()) return fault(Code::invalid_request, "Invalid request: this session is already initialized");
  if (bytes_of(object_of(params, "capabilities")) > kMaxCapabilities)
    return fault(Code::invalid_params, "Invalid params: capabilities is too large");
  revision_ = negotiate(text_of(params, "protocolVersion"));
  capabilities_ = object_of(params, "capabilities");
  client_ = client_of(object_of(params, "clientInfo"));
  const auto tell = [weak = weak_from_this()](std::string_view method, json::object news) {
    if (const auto peer = weak.lock()) peer->notify(method, std::move(news));
  };
  subscriber_ = std::make_shared<Subscriber>(Subscriber{
      .tenant = options_.tenant, .subscriptions = {.tools = true, .prompts = true, .resources = true}, .tell = tell});
  service_.notifier().join(subscriber_);
  return json::object{{"protocolVersion", name_of(*revision_)},
                      {"capabilities", service_.capabilities(*revision_)},
                      {"serverInfo", service_.info()},
                      {"instructions", service_.instructions()}};
}

Or<> Peer::discover() const {
  return json::object{{"supportedVersions", json::array{name_of(kModern)}},
                      {"capabilities", service_.capabilities(kModern)},
                      {"instructions", service_.instructions()}};
}

Task<Or<>> Peer::listen(Call& call) {
  if (!call.outlet_->carries_everything())
    co_return fault(Code::invalid_request, "Invalid request: subscriptions/listen needs Accept: text/event-stream");
  auto subscriptions = read_subscriptions(call.params);
  if (!subscriptions) co_return tl::unexpected<Fault>(subscriptions.error());
  if (auto honoured = co_await service_.honour(call, *subscriptions); !honoured) co_return honoured;
  json::object mark;
  mark[envelope_key("subscriptionId")] = call.id;
  const auto subscriber = std::make_shared<Subscriber>();
  subscriber->tenant = call.tenant;
  subscriber->tell = [&call, mark](std::string_view method, json::object news) {
    if (call.cancelled()) return;
    news["_meta"] = mark;
    call.tell(notification_message(method, std::move(news)));
  };
  subscriber->tell("notifications/subscriptions/acknowledged", {{"notifications", to_json(*subscriptions)}});
  subscriber->subscriptions = std::move(*subscriptions);
  service_.notifier().join(subscriber);
  while (!call.cancelled() && !disconnected_ && !service_.ending())
    co_await call.changed().wait_until(std::chrono::steady_clock::now() + kPollInterval);
  co_return json::object{{"_meta", mark}};
}

Or<> Peer::set_level(const json::object& params) {
  const auto name = text_of(params, "level");
  const auto level = name ? find_level(*name) : std::nullopt;
  if (!level) return fault(Code::invalid_params, fmt::format("Invalid params: level must be one of {}", level_names()));
  level_ = level;
  return json::object();
}

Or<> Peer::enter_envelope(Call& call) const {
  auto envelope = read_envelope(call.params);
  if (!envelope) return tl::unexpected<Fault>(envelope.error());
  call.revision = kModern;
  call.bare = false;
  call.connection.clear();
  call.subscriber.reset();
  call.capabilities = std::move(envelope->capabilities);
  if (!envelope->client.empty()) call.client = std::move(envelope->client);
  call.asker_.reset();
  if (may_ask_in(call.method)) {
    auto rounds = Rounds::open(call, service_.seal());
    if (!rounds) return tl::unexpected<Fault>(rounds.error());
    call.asker_ = std::move(*rounds);
  }
  call.level_ = envelope->log_level ? find_level(*envelope->log_level) : std::nullopt;
  return json::object();
}

}  // namespace cove::mcp
