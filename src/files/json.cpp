#include "files/json.hpp"

#include <cerrno>

#include "base/text.hpp"
#include "wire/file_commands.hpp"

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
      return wire::kFileDiskFull;
    case EFBIG:
      return wire::kFileTooLarge;
    case EROFS:
      return wire::kFileDenied;
    case EXDEV:
      return error.code == Errc::denied ? wire::kFileOutside : wire::kFileInvalid;
    case EINVAL:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case ENOTDIR:
    case ENOTEMPTY:
      return wire::kFileInvalid;
    default:
      break;
  }
  switch (error.code) {
    case Errc::invalid:
      return wire::kFileInvalid;
    case Errc::not_found:
      return wire::kFileNotFound;
    case Errc::denied:
      return wire::kFileDenied;
    case Errc::exists:
      return wire::kFileExists;
    case Errc::over_limit:
      return error.sys_errno == 0 ? wire::kFileTooLarge : wire::kFileIo;
    case Errc::unsupported:
    case Errc::unavailable:
    case Errc::conflict:
    case Errc::quota:
    case Errc::io:
      break;
  }
  return wire::kFileIo;
}

std::string error_json(const Error& error) {
  return fmt::format("{{\"code\":\"{}\",\"error\":{}}}", error_code(error), json_string(error.message));
}

}  // namespace cove::files
