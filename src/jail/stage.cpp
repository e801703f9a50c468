#include "jail/stage.hpp"

namespace cove::jail {

std::string_view words_for(Stage stage) {
  switch (stage) {
    case Stage::none:
      return "nothing";
    case Stage::join_cgroup:
      return "join the control group";
    case Stage::cgroup_namespace:
      return "make a cgroup namespace";
    case Stage::map_ids:
      return "map the sandbox's user";
    case Stage::take_ids:
      return "become the sandbox's user";
    case Stage::seal_counters:
      return "limit the namespace's counters";
    case Stage::storage:
      return "make the sandbox's storage";
    case Stage::root:
      return "mount the root";
    case Stage::trees:
      return "mount the system directories";
    case Stage::proc:
      return "mount /proc";
    case Stage::devices:
      return "make the devices";
    case Stage::terminal:
      return "make the terminals";
    case Stage::loopback:
      return "bring up loopback";
    case Stage::hostname:
      return "set the host name";
    case Stage::change_root:
      return "enter the root";
    case Stage::descriptors:
      return "set up descriptors";
    case Stage::rlimits:
      return "set resource limits";
    case Stage::capabilities:
      return "drop capabilities";
    case Stage::landlock:
      return "turn on Landlock";
    case Stage::seccomp:
      return "install the seccomp filter";
    case Stage::init:
      return "start cove-init";
    case Stage::namespaces:
      return "enter the sandbox";
    case Stage::fork:
      return "fork";
    case Stage::interpreter:
      return "start the interpreter";
  }
  return "an unknown step";
}

}  // namespace cove::jail
