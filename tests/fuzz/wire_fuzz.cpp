// Whatever comes out of a sandbox, or goes into one: frames and their payloads. What decodes must encode to itself.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "wire/frame.hpp"
#include "wire/init_messages.hpp"

namespace {

using namespace cove::wire;

template <typename Decoded>
void round_trip(std::string_view payload, const Decoded& decoded) {
  if (decoded && encode(*decoded) != payload) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  FrameReader reader;
  // In pieces of changing size, as a socket gives them.
  std::size_t at = 0;
  for (std::size_t step = 1; at < input.size(); step = step * 3 % 61 + 1) {
    reader.append(input.substr(at, step));
    at += std::min(step, input.size() - at);
    while (const auto frame = reader.next()) {
      const auto payload = frame->payload;
      round_trip(payload, decode_spawn(payload));
      round_trip(payload, decode_output(payload));
      round_trip(payload, decode_acknowledge(payload));
      round_trip(payload, decode_spawn_failed(payload));
      round_trip(payload, decode_exited(payload));
      round_trip(payload, decode_known(payload));
      if (const auto number = decode_number(payload); number && encode_number(*number) != payload) std::abort();
    }
    if (reader.broken()) break;
  }
  // The same bytes as the payload of every message.
  round_trip(input, decode_spawn(input));
  round_trip(input, decode_known(input));
  round_trip(input, decode_exited(input));
  return 0;
}
