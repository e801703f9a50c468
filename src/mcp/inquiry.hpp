#pragma once

#include <chrono>
#include <map>
#include <string>

#include "mcp/call.hpp"

namespace cove::mcp {

// Asking in older revisions: requests to the client while its own request is in progress.
class Inquiry : public Asker {
 public:
  explicit Inquiry(std::chrono::milliseconds patience) : patience_(patience) {}

  // A late answer is a fault; the client gets a cancellation.
  Task<Asked> ask(Call& call, std::vector<Question> questions) override;
  // An unexpected response is dropped.
  void hear(const Message& response);

 private:
  struct Pending {
    Call& call;
    std::optional<Or<>> answer;
  };
  std::chrono::milliseconds patience_;
  std::map<std::string, Pending> pending_;  // by id
  std::uint64_t next_ = 1;
};

}  // namespace cove::mcp
