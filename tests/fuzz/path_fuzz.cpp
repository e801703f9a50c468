// Any bytes as a name in an archive, a link's target or a path of the API: what is accepted keeps the rules.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/text.hpp"
#include "files/json.hpp"
#include "files/names.hpp"

namespace {

using namespace cove::files;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  constexpr std::size_t kDepth = 16;
  if (const auto path = member_path(bytes, kDepth)) {
    std::size_t depth = 0;
    for (std::string_view rest = *path; !rest.empty(); ++depth) {
      const auto part = cove::take_until(rest, '/');
      expect(!part.empty() && part != "." && part != ".." && part.size() <= kMaxNameBytes, "a component is bad");
    }
    expect(depth <= kDepth && path->size() <= kMaxPathBytes, "a path is too long");
    expect(path->find('\0') == std::string::npos && !path->starts_with('/'), "a path is absolute or has a NUL");
    expect(path->empty() || member_path(*path, kDepth).value() == *path, "a normal path is changed");
  }
  if (const auto path = absolute_path(bytes)) {
    expect(path->starts_with('/') && path->size() < kMaxPathBytes, "a path is relative or too long");
    expect(absolute_path(*path).value() == *path, "an absolute path is changed");
  }
  const auto cut = bytes.find('\n');
  if (cut != std::string_view::npos && link_stays_inside(bytes.substr(0, cut), bytes.substr(cut + 1)))
    expect(bytes[cut + 1] != '/', "an absolute target is inside");
  const auto json = json_string(bytes);
  expect(cove::valid_utf8(json) && json.find('\n') == std::string::npos, "JSON is broken");
  return 0;
}
