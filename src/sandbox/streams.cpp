#include "sandbox/streams.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "sys/record.hpp"

namespace cove::sandbox {
namespace {

struct Ends {
  UniqueFd init;
  UniqueFd child;
};

enum class Direction { in, out };

Result<Ends> make_pipe(Direction direction) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno(errno, "pipe");
  UniqueFd read(ends[0]);
  UniqueFd write(ends[1]);
  if (direction == Direction::in) return Ends{.init = std::move(write), .child = std::move(read)};
  return Ends{.init = std::move(read), .child = std::move(write)};
}

Result<Ends> make_channel() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return fail_errno(errno, "socketpair");
  return Ends{.init = UniqueFd(ends[0]), .child = UniqueFd(ends[1])};
}

}  // namespace

Result<Streams> make_streams() {
  COVE_TRY(auto in, make_pipe(Direction::in));
  COVE_TRY(auto out, make_pipe(Direction::out));
  COVE_TRY(auto err, make_pipe(Direction::out));
  COVE_TRY(auto channel, make_channel());
  return Streams{
      .init = sys::descriptors(std::move(in.init), std::move(out.init), std::move(err.init), std::move(channel.init)),
      .child =
          sys::descriptors(std::move(in.child), std::move(out.child), std::move(err.child), std::move(channel.child))};
}

}  // namespace cove::sandbox
