#pragma once

#include <string>

#include "base/unique_fd.hpp"

namespace cove::egress {

struct ServiceOptions {
  UniqueFd front;        // the SOCK_SEQPACKET pair of wire/egress_messages.hpp; its end is the end of this process
  std::string resolver;  // "ADDRESS[:PORT]" of the name server; empty: the system's
  std::string ca_file;   // certificates that upstream servers are verified with; empty: the system's
};

// The whole life of the egress process: serves until the front is gone. Called after privileges were dropped; closes
// itself in with Landlock and seccomp-free rlimits as far as the host allows. Returns the exit status.
int serve(ServiceOptions options);

}  // namespace cove::egress
