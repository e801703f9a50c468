#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/arguments.hpp"
#include "egress/policy.hpp"
#include "jail/plan.hpp"

namespace cove::cli {

struct HostFile {
  std::string host_path;
  std::string sandbox_path;
};

// `cove run` as it was asked for, checked.
struct RunOptions {
  std::string language;
  std::optional<std::string> code;  // -c
  std::vector<std::string> words;   // FILE ARGS…, or CMD… after --
  bool is_command = false;          // words came after --

  std::chrono::milliseconds timeout{30'000};
  jail::Limits limits;
  std::uint64_t output_limit = 1U << 20;
  std::vector<std::string> environment;
  std::vector<HostFile> files;
  std::vector<HostFile> outs;
  std::string workdir = "/workspace";
  std::string standard_input = "inherit";  // inherit, none, or a host file
  std::string template_name = "host";
  std::string state_dir;
  egress::Policy network;
  std::string resolver;  // "": the system's
  bool json = false;
  bool quiet = false;
  bool terminal = false;
  bool allow_degraded = false;
};

// The raw texts of the command line; `checked` turns them into RunOptions.
struct RunArguments {
  std::string language;
  std::vector<std::string> code;
  std::string timeout = "30s";
  std::string memory = "1G";
  std::string cpus = "1";
  std::uint32_t pids = 256;
  std::string disk;
  std::string output_limit = "1M";
  std::vector<std::string> environment;
  std::vector<std::string> files;
  std::vector<std::string> outs;
  std::string workdir = "/workspace";
  std::string standard_input = "inherit";
  std::string network;
  std::vector<std::string> allow;
  std::vector<std::string> deny;
  std::string resolver;
  std::string template_name = "host";
  std::string state_dir;
  bool json = false;
  bool quiet = false;
  bool terminal = false;
  bool allow_degraded = false;
};

void describe(App& command, RunArguments& arguments);
// `words` is what followed the options; `is_command` whether a -- stood before them.
Result<RunOptions> checked(const RunArguments& arguments, std::vector<std::string> words, bool is_command);

}  // namespace cove::cli
