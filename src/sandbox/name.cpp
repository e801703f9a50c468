#include "sandbox/name.hpp"

#include <charconv>

#include "base/text.hpp"

namespace cove::sandbox {

Result<std::string> checked_name(const std::string& name) {
  if (name.empty()) return fail(Errc::invalid, "the sandbox id is empty");
  if (name.size() > 255) return fail(Errc::invalid, "the sandbox id is longer than 255 bytes");
  if (name == "." || name == "..") return fail(Errc::invalid, "the sandbox id may not be . or ..");
  if (!valid_utf8(name)) return fail(Errc::invalid, "the sandbox id is not UTF-8");
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) return fail(Errc::invalid, "the sandbox id contains a control character");
  }
  return name;
}

std::string process_id(std::uint32_t number) {
  return fmt::format("p{}", number);
}

Result<std::uint32_t> process_number(std::string_view id) {
  std::uint32_t number = 0;
  if (id.starts_with('p')) {
    const auto [end, failed] = std::from_chars(id.data() + 1, id.data() + id.size(), number);
    if (failed == std::errc() && end == id.data() + id.size() && number > 0) return number;
  }
  return fail(Errc::not_found, fmt::format("no such process: {}", replace_invalid_utf8(id)));
}

}  // namespace cove::sandbox
