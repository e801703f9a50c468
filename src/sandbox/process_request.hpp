#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "guest/outcome.hpp"
#include "journal/entry.hpp"
#include "wire/init_messages.hpp"

namespace cove::sandbox {

using guest::Reason;

// Who sees the process: `internal` is work of ours inside the sandbox, such as the file helper; callers see a kernel's
// process as the kernel, an execution's as the execution.
enum class ProcessKind : std::uint8_t { exec, background, internal, kernel, execution };
enum class InputMode : std::uint8_t { none, open };
// Unread output over the limit: the oldest is dropped, or the producer waits.
enum class Delivery : std::uint8_t { newest, everything };
// How an interpreter came to be: forked from a zygote that had everything loaded, or started from its file.
enum class Birth : std::uint8_t { cold, warm };

// What the process of a kernel or an execution belongs to. Stored, so that a server after a restart finds it.
struct ProcessTag {
  std::string owner;     // the id of the kernel or execution
  std::string language;  // of a kernel
  Birth birth = Birth::cold;
  std::vector<std::string> variables = {};  // of a kernel, "K=V": its next interpreter gets them too
};

struct ProcessRequest {
  ProcessKind kind = ProcessKind::exec;
  std::vector<std::string> argv;
  std::string directory = {};          // absolute, or relative to that of the sandbox (SandboxRow::directory)
  std::vector<std::string> variables;  // "K=V", besides the sandbox's own
  bool terminal = false;
  std::uint16_t rows = 24;
  std::uint16_t columns = 80;
  std::optional<std::chrono::milliseconds> timeout;
  InputMode input = InputMode::none;
  std::uint64_t output_limit = UINT64_MAX / 4;  // bytes of each stream that are kept
  wire::Kept kept = wire::Kept::beginning;      // of output past its limit
  std::size_t history = std::size_t{1} << 20;   // bytes of output held for readers
  Delivery delivery = Delivery::newest;
  std::function<bool()> abandoned = {};  // while it is being started: whether nobody waits for it any more
  bool channel = false;
  bool light = false;  // a Python program for which a light interpreter will do
  bool whole = false;  // nobody follows it: each stream is held as one event, for text_of() at the end
  ProcessTag tag = {};
  std::vector<wire::InlineFile> files = {};    // written by the new process before it becomes its program
  std::shared_ptr<journal::Entry> entry = {};  // of the journal, ended with the process
};

struct ProcessEnd {
  Reason reason = Reason::exited;
  int exit_status = 0;  // the program's own, or by the convention of shells
  int signal = 0;
  std::chrono::milliseconds wall{0};
  std::chrono::milliseconds cpu{0};
  std::uint64_t out_bytes = 0;
  std::uint64_t err_bytes = 0;
  std::optional<std::uint32_t> made;  // wire::Exited::made; nullopt when init did not count
  std::uint64_t oom_kills = 0;        // processes that the kernel killed for memory while it ran
  std::uint64_t pids_refused = 0;     // forks that the kernel refused while it ran
  std::string note;                   // for people: what ended it, or what the kernel did while it ran
};

}  // namespace cove::sandbox
