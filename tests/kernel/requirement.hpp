#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

// A missing kernel feature skips with its reason; COVE_REQUIRE_KERNEL=1 makes that a failure.
#define COVE_REQUIRE(condition, reason)                                    \
  do {                                                                     \
    if (condition) break;                                                  \
    if (std::getenv("COVE_REQUIRE_KERNEL") != nullptr) FAIL() << (reason); \
    GTEST_SKIP() << (reason);                                              \
  } while (false)
