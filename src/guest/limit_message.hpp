#pragma once

#include <cstdint>
#include <string>

#include "guest/outcome.hpp"

namespace cove::guest {

// The limits that a run can meet, for the message about them.
struct RunLimits {
  std::uint64_t memory_bytes = 0;
  std::uint64_t disk_bytes = 0;
  std::uint64_t inodes = 0;
  std::uint64_t pids = 0;
};

// How more is had: by an option of `cove run`, or in another sandbox.
enum class Remedy : std::uint8_t { run_option, another_sandbox };

// What is known besides the evidence.
struct RunFacts {
  RunLimits limits;
  std::uint64_t memory_peak_bytes = 0;
  std::uint64_t file_bytes = 0;  // in all files at the end; they are memory too
  Remedy remedy = Remedy::another_sandbox;
};

// One line about the limit that spoiled or ended a run, with its number and the next step; about processes that were
// killed while the program went on; or about the signal that ended it. Empty when there is nothing to say. Every door
// and command uses these words.
std::string limit_message(Reason reason, const Evidence& evidence, const RunFacts& facts);

// The same for an interpreter that ended: without "killed: " and "failed: " before it.
std::string limit_cause(Reason reason, const Evidence& evidence, const RunFacts& facts);

// About processes that were killed for memory while something went on that has no exit status of its own.
std::string killed_beside(std::uint64_t oom_kills, const RunFacts& facts);

}  // namespace cove::guest
