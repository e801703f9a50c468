#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>
#include <ctime>
#include <string>

namespace cove {

// The clock of time limits: it counts while the machine sleeps, is the same for every process, and cannot be set.
inline std::chrono::milliseconds boot_time() {
  timespec ts{};
  ::clock_gettime(CLOCK_BOOTTIME, &ts);
  return std::chrono::milliseconds(ts.tv_sec * 1000 + ts.tv_nsec / 1'000'000);
}

// Differs after every boot of the machine.
std::string boot_id();

// To show to people; never to decide by.
inline std::int64_t unix_millis() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// "2026-03-04T10:15:00Z"
inline std::string iso_time(std::int64_t unix_ms) {
  const std::time_t seconds = unix_ms / 1000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

}  // namespace cove
