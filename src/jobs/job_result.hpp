#pragma once

#include <boost/json.hpp>
#include <string>
#include <string_view>

#include "guest/outcome.hpp"
#include "sandbox/process.hpp"

namespace cove::jobs {

// completed, failed, timeout, cancelled or crashed.
std::string_view status_of(guest::Reason reason, int exit_status);

// What a handler reported about its own end: untrusted.
struct Returned {
  int exit_code = 1;
  boost::json::value value;
  std::string error;  // empty: the value is the handler's
};
Returned returned_by(std::string_view message);

// The result of a process that ended: `out` and `err` are what is kept of its streams.
boost::json::object result_of(const sandbox::Process& process, std::string_view out, std::string_view err);

}  // namespace cove::jobs
