#pragma once

#include <memory>
#include <string>

#include "async/task.hpp"
#include "egress/byte_stream.hpp"
#include "egress/flow.hpp"
#include "egress/proxy_request.hpp"

namespace cove::egress {

class SandboxEgress;

// Both sides of a flow that was dialled, as bytes.
struct Sides {
  std::shared_ptr<ByteStream> client;
  std::shared_ptr<ByteStream> server;
};

// A head that a client sends, and what it sent after it. Within `patience` in all; heads have a bound.
struct ReadHead {
  std::string head;  // "": it did not come, or is refused
  std::string rest;
  ProxyRefusal refusal = {};  // a status of 0: the client is gone, or was too slow
};
async::Task<ReadHead> read_request_head(std::shared_ptr<Flow> flow, std::shared_ptr<ByteStream> client,
                                        std::string begun);

// Sends a request to the server of its flow and the answer back; nothing else that either side sends passes. Headers of
// the policy for that host are added, and their values do not come back: not in the answer's head, and not in its body.
async::Task<> forward(std::shared_ptr<SandboxEgress> egress, std::shared_ptr<Flow> flow, Sides sides,
                      ProxyRequest request, std::string rest);

// A whole answer of ours.
std::string own_answer(unsigned status, std::string_view reason, std::string_view sentence);
// Sends the last words to a client and gives it time to read them.
async::Task<> last_words(std::shared_ptr<Flow> flow, std::shared_ptr<ByteStream> client, std::string text);

}  // namespace cove::egress
