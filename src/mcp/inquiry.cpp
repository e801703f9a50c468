#include "mcp/inquiry.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace cove::mcp {
namespace {

namespace json = boost::json;
using Clock = std::chrono::steady_clock;

}  // namespace

void Inquiry::hear(const Message& response) {
  if (!response.id.is_string()) return;
  const auto found = pending_.find(std::string(response.id.as_string()));
  if (found == pending_.end() || found->second.answer) return;
  if (response.answer.is_object())
    found->second.answer = response.answer.as_object();
  else if (!response.fault.message.empty())
    found->second.answer = tl::unexpected<Fault>(response.fault);
  else
    found->second.answer = fault(Code::invalid_params, "The client's answer is not an object");
  found->second.call.changed().notify_all();
}

Task<Asked> Inquiry::ask(Call& call, std::vector<Question> questions) {
  std::map<std::string, std::string> ids;  // by key
  struct Leave {                           // also when the frame is destroyed where it waits
    Inquiry& inquiry;
    std::map<std::string, std::string>& ids;
    ~Leave() {
      for (const auto& [key, id] : ids) inquiry.pending_.erase(id);
    }
  } const leave{*this, ids};
  for (auto& question : questions) {
    const auto id = fmt::format("ask-{}", next_++);
    pending_.emplace(id, Pending{.call = call, .answer = std::nullopt});
    ids[question.key] = id;
    call.tell(request_message(json::value(id), question.method, std::move(question.params)));
  }
  const auto answered = [&] {
    return std::ranges::all_of(ids, [&](const auto& entry) { return pending_.at(entry.second).answer.has_value(); });
  };
  const auto until = Clock::now() + patience_;
  while (!answered() && !call.cancelled() && Clock::now() < until) co_await call.changed().wait_until(until);
  Answers answers;
  for (const auto& [key, id] : ids) {
    auto& answer = pending_.at(id).answer;
    if (!answer) {
      answer = fault(Code::internal, "The client did not answer in time");
      call.tell(notification_message("notifications/cancelled",
                                     {{"requestId", id}, {"reason", "the answer is no longer needed"}}));
    }
    answers.emplace(key, std::move(*answer));
  }
  co_return answers;
}

}  // namespace cove::mcp
