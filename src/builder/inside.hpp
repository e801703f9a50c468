#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "host/identity.hpp"

namespace cove::builder {

// Where work finds the directory that it is for, wherever that lies on the host.
inline constexpr const char* kShown = "/tmp/template";

// A process that is root in user, mount and pid namespaces of its own and nobody on the host: it has the ids of
// `identity`, its own /tmp, and no way to more. It dies with whoever holds the handle, and everything it started with
// it.
class Inside {
 public:
  // `work` runs in it, sees `directory` at kShown, and returns its exit status. The caller is single-threaded, and its
  // working directory is the root afterwards.
  static Result<Inside> start(const host::Identity& identity, const std::string& directory,
                              const std::function<int()>& work);
  Inside(Inside&& other) noexcept;
  Inside& operator=(Inside&&) = delete;
  ~Inside();

  // Readable when it has ended.
  [[nodiscard]] int pidfd() const { return pidfd_.get(); }
  // Waits for its end. 128 and more: a signal.
  int wait();

 private:
  Inside() = default;
  pid_t pid_ = -1;
  UniqueFd pidfd_;
  UniqueFd lifeline_;
};

}  // namespace cove::builder
