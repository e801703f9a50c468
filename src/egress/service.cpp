#include "egress/service.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <exception>

#include "base/io.hpp"
#include "egress/control.hpp"
#include "egress/relay.hpp"
#include "egress/tls_stream.hpp"
#include "sys/landlock.hpp"
#include "sys/privilege.hpp"
#include "sys/process.hpp"

namespace cove::egress {
namespace {

constexpr std::size_t kDescriptorsOfOne = 6;       // two sockets, and a pipe for each direction
constexpr std::size_t kDescriptorsOfOthers = 512;  // of the process itself, of lookups, of listeners
constexpr std::size_t kMostConnections = 65'536;

constexpr std::size_t kLongestBundle = 4 << 20;
constexpr auto kBundles = std::to_array<const char*>(
    {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"});

std::size_t most_connections() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 64;
  const auto descriptors = static_cast<std::size_t>(limit.rlim_cur);
  if (descriptors < 2 * kDescriptorsOfOthers) return 64;
  return std::min((descriptors - kDescriptorsOfOthers) / kDescriptorsOfOne, kMostConnections);
}

// From here on no file is opened and nothing is gained. What the host does not have is done without: it is one lock of
// several.
Result<> lock_in() {
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return fail_errno(errno, "become non-dumpable");
  if (!sys::set_no_new_privileges()) return fail_errno(errno, "give up new privileges");
  const int abi = sys::landlock_abi();
  if (abi > 0 && !sys::restrict_with_landlock({}, abi, sys::SignalScope::own_domain))
    return fail_errno(errno, "close the file system");
  return {};
}

// Later no file can be opened. Without any, no server is believed.
std::string read_certificates(const std::string& ca_file) {
  for (const auto& path : ca_file.empty() ? std::vector<std::string>(kBundles.begin(), kBundles.end())
                                          : std::vector<std::string>{ca_file}) {
    if (auto text = read_file_at(AT_FDCWD, path, kLongestBundle)) return std::move(*text);
  }
  return {};
}

Result<> run(ServiceOptions options) {
  // Others' ends of sockets and pipes go away at any time.
  ::signal(SIGPIPE, SIG_IGN);
  sys::raise_descriptor_limit();
  const auto resolv_conf = read_file_at(AT_FDCWD, "/etc/resolv.conf", 64 << 10);
  COVE_TRY(auto servers, name_servers(options.resolver, resolv_conf.value_or("")));
  const auto certificates = read_certificates(options.ca_file);
  std::shared_ptr<boost::asio::ssl::context> trusted;
  // OpenSSL reads its own configuration when it is used first.
  {
    const boost::asio::ssl::context first(boost::asio::ssl::context::tls_client);
  }
  boost::asio::io_context io(1);
  Common common{.executor = io.get_executor(),
                .resolver = DnsClient(io.get_executor(), {.servers = std::move(servers)}),
                .max_connections = most_connections(),
                .original_destination = original_destination,
                .trust = [&]() -> Result<std::shared_ptr<boost::asio::ssl::context>> {
                  // Reading them takes a moment, and most servers never need them.
                  if (!trusted) {
                    COVE_TRY(trusted, trusting(certificates));
                  }
                  return trusted;
                }};
  Control control(common, std::move(options.front));
  COVE_CHECK(lock_in());
  std::exception_ptr escaped;
  boost::asio::co_spawn(io, control.serve(), [&](std::exception_ptr error) {
    escaped = std::move(error);
    io.stop();
  });
  io.run();
  if (escaped) std::rethrow_exception(escaped);
  return {};
}

}  // namespace

int serve(ServiceOptions options) {
  try {
    const auto ran = run(std::move(options));
    if (ran) return 0;
    std::fprintf(stderr, "cove egress: %s\n", ran.error().message.c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cove egress: %s\n", error.what());
  }
  return 1;
}

}  // namespace cove::egress
