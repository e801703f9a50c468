#include "sandbox/sandbox_record.hpp"

#include <fmt/format.h>

namespace cove::sandbox {

std::string_view name_of(State state) {
  switch (state) {
    case State::creating:
      return "creating";
    case State::running:
      return "running";
    case State::paused:
      return "paused";
    case State::deleting:
    case State::gone:
      return "deleting";
  }
  return "deleting";
}

tl::unexpected<Error> not_found(const SandboxRecord& record) {
  return fail(Errc::not_found, fmt::format("sandbox not found: {}", record.row.name));
}

tl::unexpected<Error> not_startable(const SandboxRecord& record) {
  if (record.state == State::paused) return fail(Errc::conflict, "the sandbox is paused: resume it first");
  return not_found(record);
}

}  // namespace cove::sandbox
