#include "guest/environment.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace cove::guest {
namespace {

constexpr std::string_view kNodeOptions = "NODE_OPTIONS=";
constexpr std::string_view kNodeHeap = "--max-old-space-size=";

// The heap that node was given here, if it was: the first of its options.
std::string_view node_heap(const std::vector<std::string>& environment) {
  const auto found =
      std::ranges::find_if(environment, [](const std::string& other) { return other.starts_with(kNodeOptions); });
  if (found == environment.end()) return {};
  const auto options = std::string_view(*found).substr(kNodeOptions.size());
  return options.starts_with(kNodeHeap) ? options.substr(0, options.find(' ')) : std::string_view();
}

}  // namespace

std::vector<std::string> base_environment() {
  return {"PATH=/cove/stand-ins:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/cove/bin",
          "HOME=/home/cove", "USER=cove", "LOGNAME=cove", "LANG=C.UTF-8", "TMPDIR=/tmp", "SHELL=/bin/bash",
          // What a program printed before its time was up, or so far, is there to be read.
          "PYTHONUNBUFFERED=1"};
}

std::vector<std::string> base_environment(const Share& share) {
  auto environment = base_environment();
  const auto cpus = std::max(1U, (share.cpu_millis + 999) / 1000);
  for (const char* name : {"SANDBOX_CPUS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
                           "PYTHON_CPU_COUNT"})  // the last for Python 3.13 and later
    environment.push_back(fmt::format("{}={}", name, cpus));
  environment.push_back(fmt::format("SANDBOX_MEMORY_BYTES={}", share.memory_bytes));
  environment.push_back(fmt::format("SANDBOX_PIDS={}", share.pids));
  // Three quarters: the rest is for node itself, buffers outside its heap, and files, which count as memory.
  const auto heap = std::max<std::uint64_t>(16, share.memory_bytes / 4 * 3 >> 20);
  environment.push_back(fmt::format("{}{}{}", kNodeOptions, kNodeHeap, heap));
  return environment;
}

boost::json::object first_message(std::string_view mode, const std::vector<std::string>& environment,
                                  std::string_view directory) {
  boost::json::object variables;
  for (const auto& variable : environment) {
    const auto equals = variable.find('=');
    variables[variable.substr(0, equals)] = variable.substr(equals + 1);
  }
  return {{"op", "begin"}, {"mode", mode}, {"env", std::move(variables)}, {"cwd", directory}};
}

void set_variable(std::vector<std::string>& environment, std::string_view variable) {
  const auto name = variable.substr(0, variable.find('=') + 1);
  std::string value(variable);
  if (const auto heap = node_heap(environment); name == kNodeOptions && !heap.empty() && value.size() > name.size())
    value = fmt::format("{}{} {}", kNodeOptions, heap, variable.substr(name.size()));
  std::erase_if(environment, [&](const std::string& other) { return other.starts_with(name); });
  environment.push_back(std::move(value));
}

}  // namespace cove::guest
