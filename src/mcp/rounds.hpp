#pragma once

#include "mcp/call.hpp"
#include "mcp/seal.hpp"

namespace cove::mcp {

// Asking in the newest revision: the call is answered with the questions, and the client repeats it with its answers.
// Answers of earlier rounds are in the request state.
class Rounds : public Asker {
 public:
  // invalid_params when the state or the answers are malformed, or the state belongs to another caller or call.
  static Or<std::shared_ptr<Rounds>> open(const Call& call, const Seal& seal);
  Rounds(const Seal& seal, boost::json::object state, boost::json::object said)
      : seal_(seal), state_(std::move(state)), said_(std::move(said)) {}

  Task<Asked> ask(Call& call, std::vector<Question> questions) override;

 private:
  const Seal& seal_;
  boost::json::object state_;  // the caller and the call
  boost::json::object said_;   // by key
};

// Whether a request may be answered with questions at all.
bool may_ask_in(std::string_view method);

}  // namespace cove::mcp
