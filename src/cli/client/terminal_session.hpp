#pragma once

#include <string>

#include "base/result.hpp"
#include "cli/client/client_options.hpp"
#include "client/http_client.hpp"

namespace cove::cli {

struct TerminalRequest {
  std::string sandbox;
  boost::json::object body;  // of POST …/processes; the terminal is added here
};

// Runs a command on a terminal in a sandbox and connects it to this one until it ends: raw mode, window size, every
// key including Ctrl-C goes to the program. This terminal is always restored. Returns the exit status.
Result<int> terminal_session(client::Client& client, TerminalRequest request);

// The exit status for a command that could not be started: 126 and 127 as in a shell, else 125.
int status_of_refusal(const Error& error);

}  // namespace cove::cli
