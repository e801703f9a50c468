// Any bytes as a cove.toml: refused with a reason, or a configuration that loads to itself again.
#include <sys/mman.h>

#include <cstdlib>

#include "base/io.hpp"
#include "config/config.hpp"
#include "config/keys.hpp"
#include "config/value.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cove;
  const UniqueFd file(::memfd_create("cove.toml", MFD_CLOEXEC));
  if (!file || !write_all(file.get(), {reinterpret_cast<const char*>(data), size})) return 0;
  const auto config = config::load({.file = fmt::format("/proc/self/fd/{}", file.get()), .default_state_dir = "/x"});
  if (!config) {
    if (config.error().message.empty()) std::abort();
    return 0;
  }
  // What is shown can be read, for the kinds that are shown exactly.
  for (const auto& key : config::keys()) {
    if (key.kind != config::Kind::choice && key.kind != config::Kind::boolean && key.kind != config::Kind::address &&
        key.kind != config::Kind::list && key.kind != config::Kind::count)
      continue;
    auto again = *config;
    if (!config::put(again, key, config::shown(*config, key)) || !config::same(again, *config, key)) std::abort();
  }
  return 0;
}
