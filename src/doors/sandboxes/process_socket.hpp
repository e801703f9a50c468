#pragma once

#include <cstdint>
#include <memory>

#include "async/task.hpp"
#include "doors/sandboxes/answers.hpp"
#include "http/websocket.hpp"
#include "sandbox/process.hpp"

namespace cove::doors::sandboxes {

// A process on a WebSocket, until either ends: binary messages are its input and output, text messages are JSON
// (resize, signal, eof; gap and end). `from`: the first event to send.
async::Task<> relay(Services& services, std::shared_ptr<http::WebSocket> socket,
                    std::shared_ptr<sandbox::Process> process, std::uint64_t from);

}  // namespace cove::doors::sandboxes
