#include "files/json.hpp"

#include <cerrno>

#include "base/text.hpp"

namespace cove::files {

std::string json_string(std::string_view bytes) {
  std::string out = "\"";
  for (const char c : replace_invalid_utf8(bytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string_view error_code(const Error& error) {
  switch (error.sys_errno) {
    case ENOSPC:
    case EDQUOT:
      return "disk_full";
    case EFBIG:
      return "too_large";
    case EROFS:
      return "denied";
    case EXDEV:
      return error.code == Errc::denied ? "outside" : "invalid";
    case EINVAL:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case ENOTDIR:
    case ENOTEMPTY:
      return "invalid";
    default:
      break;
  }
  switch (error.code) {
    case Errc::invalid:
      return "invalid";
    case Errc::not_found:
      return "not_found";
    case Errc::denied:
      return "denied";
    case Errc::exists:
      return "exists";
    case Errc::over_limit:
      return error.sys_errno == 0 ? "too_large" : "io";
    case Errc::unsupported:
    case Errc::unavailable:
    case Errc::conflict:
    case Errc::quota:
    case Errc::io:
      break;
  }
  return "io";
}

std::string error_json(const Error& error) {
  return fmt::format("{{\"code\":\"{}\",\"error\":{}}}", error_code(error), json_string(error.message));
}

}  // namespace cove::files
