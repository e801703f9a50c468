#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>

#include "wire/init_messages.hpp"

namespace cove::init {

struct ChildReport {
  wire::SpawnStage stage{};
  int sys_errno = 0;
};

// Descriptors of a process as init holds them; -1 where there is none.
struct Spawned {
  pid_t pid = -1;
  int input = -1;   // write end of stdin, or the terminal
  int output = -1;  // read end of stdout, or the terminal (a duplicate of it)
  int error = -1;
  int report = -1;  // end of file once it runs its program; a ChildReport if it cannot
  int status = -1;  // supervised: SupervisorMessages
  int channel = -1;
};

// What a supervisor reports: first the pid of the process it watches, then how that ended.
struct SupervisorMessage {
  enum class Kind : int { started, ended } kind{};
  pid_t pid = -1;
  int status = 0;  // as of wait(2)
  std::uint64_t cpu_usec = 0;
};
std::uint64_t cpu_usec(const rusage& usage);

// Lets init itself hold as many descriptors as the hard limit allows, several for each process. What it starts gets the
// limit back that there was before.
void raise_descriptor_limit();
// The same for cores: those that init was started on are for its programs, and init itself runs on any, so that output
// is carried while a program computes.
void leave_cores_to_programs();

// Forks a process for `spawn`. On failure pid is -1 and `report` is closed; the stage and errno are in `failure`.
Spawned start_child(const wire::Spawn& spawn, ChildReport& failure);

}  // namespace cove::init
