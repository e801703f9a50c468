#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <tl/expected.hpp>
#include <type_traits>
#include <utility>

namespace cove {

// What a caller can act on. Each door maps this list to its own statuses in one table.
enum class Errc {
  invalid,      // the input is wrong; the message names the field and the reason
  not_found,    // no such file, language, template, sandbox
  denied,       // the kernel or a policy said no
  exists,       // already there
  over_limit,   // asked for more than is allowed, or a limit was reached
  conflict,     // the thing is in a state that does not allow it
  quota,        // the caller's share is used up; trying again later may help
  unsupported,  // this host cannot do or cannot enforce it
  unavailable,  // gone or not reachable now; trying again may help
  io,           // a system call failed for another reason
};

struct Error {
  Errc code = Errc::io;
  std::string message;  // one sentence, fit to show a client
  int sys_errno = 0;
  std::chrono::milliseconds retry_after{0};  // when to try again; 0: not known
};

// `tl::expected` that cannot be dropped silently.
template <typename T = void>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
};

inline tl::unexpected<Error> fail(Errc code, std::string message) {
  return tl::unexpected<Error>(Error{.code = code, .message = std::move(message)});
}

// The same, with a time after which to try again.
inline tl::unexpected<Error> fail_until(std::chrono::milliseconds retry_after, Errc code, std::string message) {
  return tl::unexpected<Error>(Error{.code = code, .message = std::move(message), .retry_after = retry_after});
}

inline Errc errc_of(int sys_errno) {
  switch (sys_errno) {
    case ENOENT:
    case ESRCH:
      return Errc::not_found;
    case EACCES:
    case EPERM:
      return Errc::denied;
    case EEXIST:
      return Errc::exists;
    case ENOSYS:
    case EOPNOTSUPP:
      return Errc::unsupported;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
      return Errc::over_limit;
    default:
      return Errc::io;
  }
}

// "what: the system's own words". `what` says what was being done, as in "open /etc/hosts".
template <typename... Args>
tl::unexpected<Error> fail_errno(int sys_errno, fmt::format_string<Args...> what, Args&&... args) {
  return tl::unexpected<Error>(Error{
      .code = errc_of(sys_errno),
      .message = fmt::format("{}: {}", fmt::format(what, std::forward<Args>(args)...), std::strerror(sys_errno)),
      .sys_errno = sys_errno,
  });
}

}  // namespace cove

#define COVE_CONCAT_(a, b) a##b
#define COVE_CONCAT(a, b) COVE_CONCAT_(a, b)

// COVE_TRY(auto file, open_file(path)): binds the value or returns the error.
#define COVE_TRY(decl, expr) COVE_TRY_(COVE_CONCAT(cove_try_, __LINE__), decl, expr)
#define COVE_TRY_(tmp, decl, expr)                             \
  auto tmp = (expr);                                           \
  if (!tmp) return tl::unexpected<::cove::Error>(tmp.error()); \
  decl = std::move(*tmp)

// COVE_CHECK(write_all(fd, text)): returns the error, if any.
#define COVE_CHECK(expr)                                                                                 \
  do {                                                                                                   \
    if (auto cove_check = (expr); !cove_check) return tl::unexpected<::cove::Error>(cove_check.error()); \
  } while (false)

// The same two in a coroutine.
#define COVE_CO_TRY(decl, expr) COVE_CO_TRY_(COVE_CONCAT(cove_try_, __LINE__), decl, expr)
#define COVE_CO_TRY_(tmp, decl, expr)                             \
  auto tmp = (expr);                                              \
  if (!tmp) co_return tl::unexpected<::cove::Error>(tmp.error()); \
  decl = std::move(*tmp)

#define COVE_CO_CHECK(expr)                                                                                 \
  do {                                                                                                      \
    if (auto cove_check = (expr); !cove_check) co_return tl::unexpected<::cove::Error>(cove_check.error()); \
  } while (false)
