#include "outbound/resolver.hpp"

#include <netdb.h>
#include <netinet/in.h>

#include <boost/asio/post.hpp>
#include <cstring>
#include <optional>

#include "async/signal.hpp"

namespace cove::outbound {
namespace {

namespace asio = boost::asio;
using Addresses = std::vector<asio::ip::address>;

constexpr std::size_t kThreads = 4;
constexpr std::size_t kMaxAsking = 64;

Result<Addresses> look_up(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (failed != 0) return fail(Errc::unavailable, fmt::format("{} has no address: {}", host, ::gai_strerror(failed)));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, ::freeaddrinfo);
  Addresses addresses;
  for (const auto* entry = found; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family == AF_INET) {
      sockaddr_in in{};
      std::memcpy(&in, entry->ai_addr, sizeof in);
      addresses.emplace_back(asio::ip::address_v4(ntohl(in.sin_addr.s_addr)));
    } else if (entry->ai_family == AF_INET6) {
      sockaddr_in6 in{};
      std::memcpy(&in, entry->ai_addr, sizeof in);
      asio::ip::address_v6::bytes_type bytes{};
      std::memcpy(bytes.data(), &in.sin6_addr, bytes.size());
      addresses.emplace_back(asio::ip::address_v6(bytes, in.sin6_scope_id));
    }
  }
  return addresses;
}

struct Lookup {
  explicit Lookup(const asio::any_io_executor& executor) : done(executor) {}
  std::optional<Result<Addresses>> answer;
  async::Signal done;
};

}  // namespace

Resolver::Resolver(asio::any_io_executor executor)
    : executor_(std::move(executor)), asking_(std::make_shared<std::size_t>(0)) {}

Resolver::~Resolver() = default;

async::Task<Result<Addresses>> Resolver::resolve(std::string host, std::chrono::steady_clock::time_point until) {
  boost::system::error_code not_literal;
  const auto literal = asio::ip::make_address(host, not_literal);
  if (!not_literal) co_return Addresses{literal};
  if (*asking_ >= kMaxAsking) co_return fail(Errc::unavailable, "too many names are being looked up");
  if (!threads_) threads_ = std::make_unique<asio::thread_pool>(kThreads);
  ++*asking_;
  auto lookup = std::make_shared<Lookup>(executor_);
  // The answer is touched by the loop alone; the thread hands it over by posting.
  asio::post(*threads_, [host, lookup, executor = executor_, asking = asking_]() mutable {
    auto answer = look_up(host);
    asio::post(executor,
               [answer = std::move(answer), lookup = std::move(lookup), asking = std::move(asking)]() mutable {
                 --*asking;
                 lookup->answer = std::move(answer);
                 lookup->done.notify_all();
               });
  });
  while (!lookup->answer) {
    const bool told = co_await lookup->done.wait_until(until);
    if (!told && !lookup->answer) {
      co_return tl::unexpected<Error>(Error{.code = Errc::unavailable,
                                            .message = fmt::format("{} was not looked up in time", host),
                                            .sys_errno = ETIMEDOUT});
    }
  }
  co_return std::move(*lookup->answer);
}

}  // namespace cove::outbound
