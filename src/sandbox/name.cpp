#include "sandbox/name.hpp"

#include "base/text.hpp"

namespace cove::sandbox {

Result<std::string> checked_name(const std::string& name) {
  if (name.empty()) return fail(Errc::invalid, "the sandbox id is empty");
  if (name.size() > 255) return fail(Errc::invalid, "the sandbox id is longer than 255 bytes");
  if (name == "." || name == "..") return fail(Errc::invalid, "the sandbox id may not be . or ..");
  if (!valid_utf8(name)) return fail(Errc::invalid, "the sandbox id is not UTF-8");
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) return fail(Errc::invalid, "the sandbox id holds a control character");
  }
  return name;
}

}  // namespace cove::sandbox
