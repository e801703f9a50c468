#pragma once

#include <chrono>
#include <map>
#include <string>

#include "mcp/call.hpp"

namespace cove::mcp {

// Asking in the older revisions: requests to the client while its own is served, with ids of ours.
class Inquiry : public Asker {
 public:
  explicit Inquiry(std::chrono::milliseconds patience) : patience_(patience) {}

  // An answer that does not come in time is a fault, and the client is told that nobody waits for it.
  Task<Asked> ask(Call& call, std::vector<Question> questions) override;
  // What nobody asked for is dropped.
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
