#include "guest/environment.hpp"

#include <gmock/gmock.h>

namespace cove::guest {
namespace {

using testing::Contains;
using testing::Not;
using testing::StartsWith;

TEST(Environment, PythonIsUnbufferedUnlessTheCallerSaysOtherwise) {
  auto variables = base_environment();
  EXPECT_THAT(variables, Contains("PYTHONUNBUFFERED=1"));
  set_variable(variables, "PYTHONUNBUFFERED=");
  EXPECT_THAT(variables, Contains("PYTHONUNBUFFERED="));
  EXPECT_THAT(variables, Not(Contains("PYTHONUNBUFFERED=1")));
}

TEST(Environment, ThreadsAreTheProcessorsRoundedUp) {
  const auto variables = base_environment({.memory_bytes = 512ULL << 20, .cpu_millis = 1500, .pids = 64});
  for (const char* name : {"SANDBOX_CPUS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"})
    EXPECT_THAT(variables, Contains(std::string(name) + "=2"));
  EXPECT_THAT(base_environment({.memory_bytes = 1, .cpu_millis = 100, .pids = 1}), Contains("OMP_NUM_THREADS=1"));
}

TEST(Environment, NodeGetsAHeapThatFits) {
  const auto variables = base_environment({.memory_bytes = 512ULL << 20, .cpu_millis = 1000, .pids = 64});
  EXPECT_THAT(variables, Contains("NODE_OPTIONS=--max-old-space-size=384"));
}

TEST(Environment, OptionsOfTheCallerForNodeStandBehindOurs) {
  auto variables = base_environment({.memory_bytes = 512ULL << 20, .cpu_millis = 1000, .pids = 64});
  set_variable(variables, "NODE_OPTIONS=--no-warnings");
  EXPECT_THAT(variables, Contains("NODE_OPTIONS=--max-old-space-size=384 --no-warnings"));
  set_variable(variables, "NODE_OPTIONS=--max-old-space-size=100");
  EXPECT_THAT(variables, Contains("NODE_OPTIONS=--max-old-space-size=384 --max-old-space-size=100"));
  set_variable(variables, "NODE_OPTIONS=");
  EXPECT_THAT(variables, Contains("NODE_OPTIONS="));
  EXPECT_THAT(variables, Not(Contains(StartsWith("NODE_OPTIONS=--"))));
}

}  // namespace
}  // namespace cove::guest
