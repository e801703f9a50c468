#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cove::wire {

// What passes between the front and cove-init, over one stream socket. The numbers are the wire: add at the end, never
// reuse.
enum class FrameType : std::uint16_t {
  // to init
  spawn = 1,
  input = 2,  // bytes for the process's stdin
  input_end = 3,
  acknowledge = 4,  // output up to an offset has been delivered: its room may be used again
  signal = 5,
  resize = 6,
  kill_everything = 7,  // SIGKILL to every process but init; frames that follow wait until all are gone
  kill_tree = 8,        // SIGKILL to a supervised process and all it started; its exit is reported as usual
  replay = 9,           // after `known`: send output from a number on, and whatever comes
  forget = 10,          // an ended process: its output will not be asked for again
  channel_record = 11,  // one record for the process's channel
  handover = 12,        // a process that was born without init: it is init's from now on
  limit_output = 13,    // an OutputLimit, from now on
  lease = 14,           // milliseconds from now after which a sandbox that nobody drives ends by itself; 0: never
  // from init
  ready = 32,
  started = 33,
  spawn_failed = 34,
  output = 35,
  input_room = 36,  // the process took input up to an offset
  flood = 37,       // output far beyond its limit is being thrown away
  exited = 38,
  known = 39,         // on a new connection, one for each process there is
  synced = 40,        // every `known` has been said
  channel_room = 41,  // the process took its channel's records up to a number of bytes
};

struct FrameHeader {
  std::uint32_t size = 0;  // of the payload
  FrameType type{};
  std::uint16_t reserved = 0;
  std::uint32_t process = 0;  // chosen by the front, 1 and up
};
static_assert(sizeof(FrameHeader) == 12);

inline constexpr std::uint32_t kMaxPayload = 8U << 20;

struct Frame {
  FrameType type{};
  std::uint32_t process = 0;
  std::string_view payload;  // borrowed from the FrameReader until its next call
};

void append_frame(std::string& out, FrameType type, std::uint32_t process, std::string_view payload);

// Cuts a byte stream into frames. Memory stays within one frame and one read.
class FrameReader {
 public:
  void append(std::string_view bytes) { buffer_.append(bytes); }
  // The next whole frame; nullopt until more bytes come, or for ever once `broken()`.
  std::optional<Frame> next();
  // The peer broke the protocol (a frame larger than kMaxPayload): the connection is of no more use.
  [[nodiscard]] bool broken() const { return broken_; }

 private:
  std::string buffer_;
  std::size_t taken_ = 0;
  bool broken_ = false;
};

}  // namespace cove::wire
