#include "doors/jupyter/hub.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/random_name.hpp"
#include "base/sha256.hpp"
#include "doors/jupyter/contents.hpp"

namespace cove::doors::jupyter {
namespace {

namespace json = boost::json;
using Clock = std::chrono::steady_clock;
using sandbox::Kernel;

constexpr std::size_t kMaxReplay = 8U << 20;         // of outputs for clients that are away
constexpr std::size_t kMaxReplayReplies = 1U << 20;  // of replies and states beside them
constexpr std::size_t kMaxRestarts = 5;              // after deaths, in a row
constexpr std::chrono::seconds kWatchInterval{5};    // between two looks at whether anybody is still connected
constexpr std::chrono::milliseconds kClientWait{500};

bool is_output(std::string_view type) {
  return type != "status" && !type.ends_with("_reply") && type != "input_request";
}

}  // namespace

Hub::Hub(sandbox::Core& core, std::shared_ptr<sandbox::Sandbox> sandbox, std::shared_ptr<Kernel> kernel, std::string id,
         Budget& replay, std::function<void()> remove)
    : core_(core),
      sandbox_(std::move(sandbox)),
      kernel_(std::move(kernel)),
      id_(std::move(id)),
      remove_(std::move(remove)),
      replay_budget_(replay),
      last_activity_(std::chrono::system_clock::now()) {}

// --- clients ---------------------------------------------------------------------------------------------------------

void Hub::attach(const std::shared_ptr<Client>& client) {
  const auto same = std::ranges::find_if(
      clients_, [&](const auto& other) { return !client->session().empty() && other->session() == client->session(); });
  if (same != clients_.end()) {
    const auto older = *same;
    clients_.erase(same);
    older->close(1000, "another connection of this session took its place");
  }
  if (replay_session_ && *replay_session_ == client->session()) {
    for (const auto& message : replay_)
      client->send(std::make_shared<const Frame>(encode(client->framing(), *message)));
    if (replay_lost_ > 0) {
      const auto notice =
          fmt::format("[{} bytes of output were discarded while no client was connected]\n", replay_lost_);
      const auto message = make("iopub", "stream", {}, {{"name", "stderr"}, {"text", notice}});
      client->send(std::make_shared<const Frame>(encode(client->framing(), *message)));
    }
  }
  forget_replay();
  clients_.push_back(client);
  if (!in_use_) in_use_.emplace(sandbox_);
  last_activity_ = std::chrono::system_clock::now();
  if (!std::exchange(watching_, true)) core_.tasks.spawn("watch a kernel for its clients", watch(shared_from_this()));
}

void Hub::detach(const std::shared_ptr<Client>& client) {
  // Nobody can answer the cell it ran: what it asks for has come to its end.
  if (running_ != nullptr && running_->client.lock() == client && client->session().empty()) [[maybe_unused]]
    const auto ended = kernel_->reply_input(std::nullopt);
  if (std::erase(clients_, client) == 0 || !clients_.empty()) return;
  in_use_.reset();
  if (!client->session().empty() && !closed_) replay_session_ = client->session();
}

void Hub::forget_replay() {
  replay_.clear();
  replay_charge_.release();
  replay_bytes_ = replay_lost_ = 0;
  replay_session_.reset();
}

// --- the kernel's life -----------------------------------------------------------------------------------------------

Task<> Hub::watch(std::shared_ptr<Hub> self) {
  while (!self->clients_.empty() && !self->closed_) {
    if (self->kernel_->state() == Kernel::State::dead && !self->kernel_->restarting()) co_await self->on_death();
    if (self->closed_) break;
    co_await self->kernel_->changed().wait_until(Clock::now() + kWatchInterval);
  }
  self->watching_ = false;
}

// Requests that were under way have been answered by then: their executions ended with the kernel.
Task<> Hub::on_death() {
  const bool gone = sandbox_->state() != sandbox::State::running;
  if (!gone && restarts_++ < kMaxRestarts) {
    publish_status({}, "restarting");
    if (const auto done = co_await kernel_->restart()) {
      publish_status({}, "idle");
      co_return;
    }
  }
  if (!closed_) close();
}

Task<Result<>> Hub::restart(journal::Actor actor) {
  const auto self = shared_from_this();
  if (kernel_->restarting()) co_return fail(Errc::conflict, "the kernel is already being restarted");
  publish_status({}, "restarting");
  abort_waiting();
  const auto done = co_await kernel_->restart(std::move(actor));
  restarts_ = 0;
  publish_status({}, done ? "idle" : "dead");
  last_activity_ = std::chrono::system_clock::now();
  co_return done;
}

Task<> Hub::restart_later(std::shared_ptr<Hub> self) {
  [[maybe_unused]] const auto done = co_await self->restart();  // clients were told of either
}

void Hub::close() {
  if (std::exchange(closed_, true)) return;
  publish_status({}, "dead");
  for (const auto& client : std::exchange(clients_, {})) client->close(1000, "the kernel has ended");
  in_use_.reset();
  forget_replay();
}

// --- messages --------------------------------------------------------------------------------------------------------

// One value for everything that one interpreter says, and what we say in its name.
std::string Hub::run_session() const {
  Sha256 hash;
  hash.add(fmt::format("{}/{}", id_, kernel_->process_number()));
  return hash.hex().substr(0, 32);
}

std::shared_ptr<const Message> Hub::make(std::string_view channel, std::string_view type, const json::object& parent,
                                         json::object content, std::vector<std::string> buffers) const {
  auto message = std::make_shared<Message>();
  message->channel = channel;
  message->header = {{"msg_id", random_name("")},
                     {"msg_type", type},
                     {"username", "kernel"},
                     {"session", run_session()},
                     {"date", iso_micros(std::chrono::system_clock::now())},
                     {"version", "5.3"}};
  message->parent_header = parent;
  message->content = std::move(content);
  message->buffers = std::move(buffers);
  return message;
}

void Hub::publish_event(const json::object& parent, sandbox::ExecutionEvent event, std::optional<std::int64_t> count) {
  auto said = published(std::move(event), count);
  if (!said.type.empty()) publish(parent, said.type, std::move(said.content), std::move(said.buffers));
}

void Hub::publish(const json::object& parent, std::string_view type, json::object content,
                  std::vector<std::string> buffers) {
  send_all(make("iopub", type, parent, std::move(content), std::move(buffers)));
}

void Hub::publish_status(const json::object& parent, std::string_view state) {
  publish(parent, "status", {{"execution_state", state}});
}

std::shared_ptr<Client> Hub::find_client(const Request& request) const {
  // One that another connection replaced takes nothing more.
  const auto client = request.client.lock();
  if (client && !client->over() && std::ranges::find(clients_, client) != clients_.end()) return client;
  if (request.session.empty()) return nullptr;
  const auto same = std::ranges::find(clients_, request.session, &Client::session);
  return same == clients_.end() ? nullptr : *same;
}

void Hub::send_to(const Request& request, std::shared_ptr<const Message> message) {
  if (const auto client = find_client(request)) {
    client->send(std::make_shared<const Frame>(encode(client->framing(), *message)));
  } else if (!request.session.empty() && replay_session_ == request.session) {
    keep(std::move(message));
  }
}

void Hub::send_all(const std::shared_ptr<const Message>& message) {
  if (clients_.empty()) return keep(message);
  std::array<std::shared_ptr<const Frame>, 2> frames;
  for (const auto& client : clients_) {
    auto& frame = frames.at(client->framing() == Framing::v1 ? 1 : 0);
    if (!frame) frame = std::make_shared<const Frame>(encode(client->framing(), *message));
    client->send(frame);
  }
}

// For the client that left last, should it come back.
void Hub::keep(std::shared_ptr<const Message> message) {
  if (!replay_session_ || closed_) return;
  const auto bytes = message->bytes();
  const auto most = is_output(message->type()) ? kMaxReplay : kMaxReplay + kMaxReplayReplies;
  if (replay_bytes_ == 0) replay_charge_ = replay_budget_.open(sandbox_->tenant());
  if (replay_bytes_ + bytes > most || !replay_charge_.grow(bytes)) {
    replay_lost_ += bytes;
    return;
  }
  replay_bytes_ += bytes;
  replay_.push_back(std::move(message));
}

Task<> Hub::wait_for_clients() {
  while (true) {
    const auto slow = std::ranges::find_if(clients_, [](const auto& client) { return client->full(); });
    if (slow == clients_.end()) co_return;
    const auto client = *slow;
    co_await client->changed().wait_until(Clock::now() + kClientWait);
  }
}

}  // namespace cove::doors::jupyter
