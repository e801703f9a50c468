#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "init/child.hpp"
#include "init/output_log.hpp"
#include "init/watch.hpp"
#include "wire/init_messages.hpp"

namespace cove::init {

std::int64_t now_millis();
// The same by a clock that also counts the time the host slept.
std::int64_t boot_millis();

// One process the front requested, from its fork until the front forgets it.
struct Process {
  Process(std::uint32_t process_id, const wire::Spawn& spawn, const Spawned& spawned, std::size_t history);
  // One that a zygote forked into this sandbox, and that runs already.
  Process(std::uint32_t process_id, const wire::Handover& handover, const Spawned& born, std::size_t history);

  // Reads what the process wrote, a bounded amount. True when its output passed the flood limit for the first time.
  bool pump(const Watch& watch, char* scratch, std::size_t scratch_size);
  // Writes what waits into its stdin. True when it took something.
  bool feed_input();
  void close_input();
  // Passes on what waits for its channel. True when it took something.
  bool feed_channel();
  void resize(std::uint16_t rows, std::uint16_t columns) const;

  // How it ended, as wait(2) reports it.
  void reaped(int status, std::uint64_t cpu);
  // Reads the supervisor's messages. If it is gone without reporting the end, the process is examined instead.
  void read_supervisor();
  void supervisor_gone();
  // One more round of killing its tree.
  void kill_round();

  // The end of a process is its exit, not the end of its pipes, which children it left behind may hold open for ever.
  // What was in the pipes at its exit is delivered, and what follows within a moment; then it has ended, and the rest
  // is read into nothing.
  void settle();
  // Milliseconds until settle() or kill_round() is due; -1: not before a descriptor is ready.
  [[nodiscard]] std::int64_t millis_until_due() const;
  // It has exited, and what is left in its pipes is being read.
  [[nodiscard]] bool draining() const { return is_reaped && !ended; }
  [[nodiscard]] wire::ProcessState state() const;
  // Bytes of records that came for its channel.
  [[nodiscard]] std::uint64_t channel_received() const;

  std::uint32_t id;
  wire::Terminal terminal;
  wire::AfterExit after_exit;
  std::uint64_t flood_limit;
  pid_t pid = -1;         // -1 until its supervisor has reported it
  pid_t supervisor = -1;  // -1: none, or gone
  int report = -1;
  int status = -1;
  int input = -1;
  OutputLog log;
  std::string pending_input;
  bool input_came = false;  // since it was last fed: worth a try without asking poll
  std::uint64_t input_taken = 0;
  bool input_ends = false;
  std::vector<std::string> pending_records;  // for the channel, oldest first
  bool record_came = false;                  // as input_came
  std::uint64_t channel_taken = 0;
  bool flood_sent = false;
  bool orphaned = false;  // its supervisor was killed before it
  int kill_rounds = 0;    // 0: nobody wants its tree dead

  bool is_reaped = false;
  std::int64_t drain_until = 0;  // once reaped
  wire::Exited exit;
  bool ended = false;      // settled
  bool end_sent = false;   // to the front of now
  bool wanted = true;      // the front of now asked for its output
  bool forgotten = false;  // by the front; only leftovers of its streams remain
  bool failed = false;     // never became its program
};

}  // namespace cove::init
