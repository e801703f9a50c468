#include "egress/pipe_pool.hpp"

#include <fcntl.h>
#include <unistd.h>

namespace cove::egress {

std::optional<PipePool::Pipe> PipePool::take() {
  if (!idle_.empty()) {
    auto pipe = std::move(idle_.back());
    idle_.pop_back();
    return pipe;
  }
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return std::nullopt;
  Pipe pipe{.read_end = UniqueFd(ends[0]), .write_end = UniqueFd(ends[1])};
  // Smaller where the user has too many already (pipe(7): pipe-user-pages-soft), and as good.
  (void)::fcntl(ends[1], F_SETPIPE_SZ, static_cast<int>(kPipeSize));
  return pipe;
}

}  // namespace cove::egress
