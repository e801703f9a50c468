#include "sandbox/keeper_client.hpp"

namespace cove::sandbox {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience{3};
constexpr std::size_t kOutstanding = 64;

}  // namespace

void KeeperClient::connect(keeper::KeeperLink link) {
  lose();
  link_.emplace(std::move(link));
  readiness_ = std::make_shared<async::Readiness>(executor_, link_->fd());
  tasks_.spawn("hear the keeper", listen());
}

void KeeperClient::open() {
  open_ = true;
  changed_.notify_all();
}

void KeeperClient::lose() {
  open_ = false;
  if (readiness_) readiness_->give_up();
  readiness_.reset();
  link_.reset();
  for (auto& [serial, pending] : std::exchange(pending_, {})) {
    pending->answer.emplace(fail(Errc::unavailable, "the keeper ended during this request"));
    pending->answered.notify_all();
  }
  room_.notify_all();
}

async::Task<> KeeperClient::listen() {
  const auto mine = readiness_;  // a new keeper brings a new one
  while (mine == readiness_ && co_await mine->readable()) {
    while (mine == readiness_) {
      auto reply = link_->receive();
      if (!reply) {
        lose();
        break;
      }
      if (!*reply) break;
      const auto& word = **reply;
      if (word.serial == 0) {
        on_word_(word);
        continue;
      }
      const auto found = pending_.find(word.serial);
      if (found == pending_.end()) continue;
      const auto pending = std::move(found->second);
      pending_.erase(found);
      room_.notify_all();
      pending->answer.emplace(word);
      pending->answered.notify_all();
    }
  }
}

std::shared_ptr<KeeperClient::Pending> KeeperClient::put(wire::KeeperRequest& request) {
  request.serial = next_serial_++;
  if (next_serial_ == 0) next_serial_ = 1;
  const auto pending = std::make_shared<Pending>(executor_);
  pending_.emplace(request.serial, pending);
  return pending;
}

async::Task<bool> KeeperClient::answered_by(std::shared_ptr<Pending> pending, Clock::time_point until) {
  while (!pending->answer && Clock::now() < until) co_await pending->answered.wait_until(until);
  co_return pending->answer.has_value();
}

// Costs the keeper a look into its table: that it knows no such sandbox is an answer.
async::Task<bool> KeeperClient::answers() {
  if (!link_) co_return false;
  wire::KeeperRequest question{.verb = wire::KeeperVerb::inspect, .id = SandboxId::random()};
  const auto pending = put(question);
  const bool sent = link_->send(question).has_value();
  const bool answered = sent && co_await answered_by(pending, Clock::now() + patience_.second);
  pending_.erase(question.serial);
  co_return answered && *pending->answer;
}

async::Task<Result<wire::KeeperReply>> KeeperClient::ask(wire::KeeperRequest request, std::vector<UniqueFd> fds) {
  const auto until = Clock::now() + kPatience;
  while (!open_) {
    if (!co_await changed_.wait_until(until)) co_return fail(Errc::unavailable, "the keeper is being restarted");
  }
  co_return co_await ask_directly(request, std::move(fds));
}

async::Task<Result<wire::KeeperReply>> KeeperClient::ask_directly(wire::KeeperRequest request,
                                                                  std::vector<UniqueFd> fds) {
  // Its socket holds some hundred records: more than this many questions wait here, so that it never is full.
  while (link_ && pending_.size() >= kOutstanding) co_await room_.wait();
  if (!link_) co_return fail(Errc::unavailable, "there is no keeper");
  const auto pending = put(request);
  if (auto sent = link_->send(request, std::move(fds)); !sent) {
    // It is gone, and its line's end is just not read yet: who asks again waits for the next one.
    pending_.erase(request.serial);
    lose();
    co_return tl::unexpected<Error>(sent.error());
  }
  const auto asked = Clock::now();
  for (auto until = asked + patience_.answer; !co_await answered_by(pending, until);
       until = Clock::now() + patience_.answer) {
    const bool slow = co_await answers();
    if (pending->answer) break;
    // This one is lost; the others' may come.
    if (slow && Clock::now() >= asked + patience_.most) {
      pending_.erase(request.serial);
      room_.notify_all();
      co_return fail(Errc::unavailable, "the keeper took too long over this request: try again");
    }
    if (slow) continue;
    // Whoever waits next must not wait as long: it is given up, and a new one will come.
    on_hung_();
    lose();
  }
  auto answer = std::move(*pending->answer);
  if (answer && answer->word == wire::KeeperWord::failed) co_return tl::unexpected<Error>(wire::error_of(*answer));
  co_return answer;
}

}  // namespace cove::sandbox
