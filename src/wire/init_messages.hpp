#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wire/frame.hpp"

namespace cove::wire {

// What a spawned process does. Other numbers are refused.
enum class SpawnKind : std::uint8_t {
  program = 0,         // runs argv
  make_directory = 3,  // makes argv[0] and its parents: a fork without exec, so that it costs little before a command
};

enum class Terminal : std::uint8_t { no, yes };

// What init does once this process has ended and its end has been told.
enum class AfterExit : std::uint8_t { stay, end_sandbox };

// Whether what the process starts can be told from what others started: only then can its whole tree be killed.
enum class Supervision : std::uint8_t { none, tree };

// A socket between the process and whoever drives it, beside its standard streams: descriptor kChannelFd in the
// process. Records keep their borders; init passes them on unread.
enum class Channel : std::uint8_t { none, open };
inline constexpr int kChannelFd = 3;
inline constexpr std::size_t kMaxRecord = 64U << 10;
// How far the front may send records ahead of what `channel_room` said the process took.
inline constexpr std::uint64_t kChannelAhead = 512U << 10;

// Of each stream of a process, how many bytes are kept; the rest is counted and thrown away. With Kept::both_ends the
// last bytes are among them (base/output_end.hpp).
enum class Kept : std::uint8_t { beginning, both_ends };
struct OutputLimit {
  std::uint64_t bytes = 0;
  Kept kept = Kept::beginning;
};

struct InlineFile {
  std::string path;
  std::uint32_t mode = 0644;
  std::string content;
};

struct Spawn {
  SpawnKind kind = SpawnKind::program;
  Terminal terminal = Terminal::no;
  AfterExit after_exit = AfterExit::stay;
  Supervision supervision = Supervision::none;
  Channel channel = Channel::none;
  std::uint16_t rows = 24;
  std::uint16_t columns = 80;
  OutputLimit output_limit;
  std::uint64_t flood_limit = 0;  // bytes thrown away before `flood` is reported; 0 = never
  std::string directory;          // working directory
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // "K=V", the whole environment
  std::vector<InlineFile> files;         // written by the new process before it becomes its program
};

// How far the front may send input ahead of what `input_room` said the process took: init holds no more than this.
inline constexpr std::uint64_t kInputAhead = 256U << 10;

enum class Stream : std::uint8_t { out = 1, err = 2, channel = 3 };
inline constexpr Stream kStreams[] = {Stream::out, Stream::err, Stream::channel};
constexpr std::size_t index_of(Stream stream) {
  return static_cast<std::size_t>(stream) - 1;
}

// Events of a process are numbered: 1 is its start, then its output, then its end.
inline constexpr std::uint64_t kFirstOutput = 2;

struct Output {
  Stream stream = Stream::out;
  std::uint64_t sequence = 0;
  std::uint64_t offset = 0;  // of the first byte, in the stream as kept
  std::string_view bytes;
};

struct Acknowledge {
  Stream stream = Stream::out;
  std::uint64_t offset = 0;
};

// Where a process came to before it could run.
enum class SpawnStage : std::uint8_t { fork, terminal, directory, files, program };
struct SpawnFailed {
  SpawnStage stage = SpawnStage::fork;
  std::int32_t sys_errno = 0;
};

struct Exited {
  std::int32_t exit_code = -1;  // -1 when a signal ended it
  std::int32_t signal = 0;
  std::uint64_t out_bytes = 0;  // everything it wrote, kept or not
  std::uint64_t err_bytes = 0;
  std::uint64_t cpu_usec = 0;  // of the process and of the children it waited for
  std::uint64_t disk_free_bytes = 0;
  std::uint64_t disk_free_inodes = 0;
  std::uint32_t made = 0;  // entries of the workspace at its end, as far as two, besides kProgramFile
};
// Where a Python program lies: /workspace/…
inline constexpr const char* kProgramFile = "__main__.py";

// What a new front is told of a process that it did not start.
enum class ProcessState : std::uint8_t { starting, running, ended };
struct Known {
  ProcessState state = ProcessState::starting;
  std::uint64_t first_sequence = 0;  // of the output still held
  std::uint64_t next_sequence = 0;
  std::uint64_t input_received = 0;  // taken by the process, or waiting for it
  std::uint64_t channel_received = 0;
};

// A process that was born in this sandbox without init's doing. The frame carries a descriptor for each end that init
// is to hold, kHandoverFds of them.
struct Handover {
  std::int32_t pid = -1;  // in the sandbox
  OutputLimit output_limit;
};
inline constexpr std::size_t kHandoverFds = 4;  // stdin to write, stdout and stderr to read, the channel

std::string encode(const OutputLimit& message);
std::string encode(const Handover& message);
std::string encode(const Known& message);
std::string encode(const Spawn& message);
std::string encode(const Output& message);
std::string encode(const Acknowledge& message);
std::string encode(const SpawnFailed& message);
std::string encode(const Exited& message);

// nullopt when the payload is not exactly such a message.
std::optional<OutputLimit> decode_output_limit(std::string_view payload);
std::optional<Handover> decode_handover(std::string_view payload);
std::optional<Known> decode_known(std::string_view payload);
std::optional<Spawn> decode_spawn(std::string_view payload);
std::optional<Output> decode_output(std::string_view payload);
std::optional<Acknowledge> decode_acknowledge(std::string_view payload);
std::optional<SpawnFailed> decode_spawn_failed(std::string_view payload);
std::optional<Exited> decode_exited(std::string_view payload);

// signal, resize, input_room: one or two bare numbers.
std::string encode_number(std::uint64_t value);
std::optional<std::uint64_t> decode_number(std::string_view payload);

}  // namespace cove::wire
