#include "profiles/seccomp_profile.hpp"

#include <linux/futex.h>
#include <linux/ioprio.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <linux/netlink.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <sstream>
#include <string_view>
#include <system_error>

namespace cove::profiles {
namespace {

struct Constant {
  std::string_view name;
  std::uint32_t value;
};

#define NAMED(constant) {#constant, static_cast<std::uint32_t>(constant)}
constexpr Constant kErrnos[] = {NAMED(EPERM), NAMED(ENOSYS), NAMED(EACCES), NAMED(EINVAL), NAMED(EAFNOSUPPORT)};

// What a profile may call by its name in the kernel's headers.
// clang-format off
constexpr Constant kConstants[] = {
    NAMED(PRIO_USER), NAMED(IOPRIO_WHO_USER), NAMED(RLIMIT_CORE), NAMED(S_IFMT), NAMED(S_IFREG), NAMED(S_IFIFO), NAMED(S_IFSOCK),
    NAMED(CLONE_NEWNS), NAMED(CLONE_NEWCGROUP), NAMED(CLONE_NEWUTS), NAMED(CLONE_NEWIPC), NAMED(CLONE_NEWUSER),
    NAMED(CLONE_NEWPID), NAMED(CLONE_NEWNET),
    NAMED(PR_SET_NAME), NAMED(PR_GET_NAME), NAMED(PR_SET_VMA), NAMED(PR_SET_PDEATHSIG), NAMED(PR_GET_PDEATHSIG),
    NAMED(PR_SET_CHILD_SUBREAPER), NAMED(PR_GET_CHILD_SUBREAPER), NAMED(PR_SET_DUMPABLE), NAMED(PR_GET_DUMPABLE),
    NAMED(PR_SET_NO_NEW_PRIVS), NAMED(PR_GET_NO_NEW_PRIVS), NAMED(PR_SET_TIMERSLACK), NAMED(PR_GET_TIMERSLACK),
    NAMED(PR_SET_THP_DISABLE), NAMED(PR_GET_THP_DISABLE), NAMED(PR_GET_SECCOMP), NAMED(PR_GET_KEEPCAPS),
    NAMED(PR_GET_SECUREBITS), NAMED(PR_CAPBSET_READ), NAMED(PR_GET_TSC), NAMED(PR_GET_TIMING),
    NAMED(PR_GET_SPECULATION_CTRL), NAMED(PR_GET_TID_ADDRESS), NAMED(PR_MCE_KILL_GET), NAMED(PR_CAP_AMBIENT),
    NAMED(PR_CAP_AMBIENT_IS_SET), NAMED(PR_CAP_AMBIENT_LOWER), NAMED(PR_CAP_AMBIENT_CLEAR_ALL),
    NAMED(SECCOMP_SET_MODE_STRICT), NAMED(SECCOMP_SET_MODE_FILTER), NAMED(SECCOMP_GET_ACTION_AVAIL),
    NAMED(SECCOMP_FILTER_FLAG_TSYNC), NAMED(SECCOMP_FILTER_FLAG_LOG), NAMED(SECCOMP_FILTER_FLAG_SPEC_ALLOW),
    NAMED(SECCOMP_FILTER_FLAG_TSYNC_ESRCH),
    NAMED(SCHED_OTHER), NAMED(SCHED_BATCH), NAMED(SCHED_IDLE), NAMED(SCHED_RESET_ON_FORK),
    NAMED(FUTEX_PRIVATE_FLAG), NAMED(FUTEX_CLOCK_REALTIME), NAMED(FUTEX_WAIT), NAMED(FUTEX_WAKE), NAMED(FUTEX_REQUEUE),
    NAMED(FUTEX_CMP_REQUEUE), NAMED(FUTEX_WAKE_OP), NAMED(FUTEX_LOCK_PI), NAMED(FUTEX_LOCK_PI2), NAMED(FUTEX_UNLOCK_PI),
    NAMED(FUTEX_TRYLOCK_PI), NAMED(FUTEX_WAIT_BITSET), NAMED(FUTEX_WAKE_BITSET),
    NAMED(AF_UNIX), NAMED(AF_INET), NAMED(AF_INET6), NAMED(AF_NETLINK), NAMED(SOCK_STREAM), NAMED(SOCK_DGRAM),
    NAMED(SOCK_RAW), NAMED(SOCK_SEQPACKET), NAMED(SOCK_NONBLOCK), NAMED(SOCK_CLOEXEC), NAMED(IPPROTO_IP),
    NAMED(IPPROTO_TCP), NAMED(IPPROTO_UDP), NAMED(IPPROTO_IPV6), NAMED(NETLINK_ROUTE),
    NAMED(SOL_SOCKET), NAMED(SO_ATTACH_FILTER), NAMED(SO_ATTACH_BPF), NAMED(SO_ATTACH_REUSEPORT_CBPF),
    NAMED(SO_ATTACH_REUSEPORT_EBPF), NAMED(TCP_ULP), NAMED(UDP_ENCAP), NAMED(IP6T_SO_SET_REPLACE),
    NAMED(IP6T_SO_SET_ADD_COUNTERS),
    NAMED(TIOCSTI), NAMED(TIOCLINUX), NAMED(TIOCSETD), NAMED(TIOCCONS),
    {"PR_SET_MDWE", 65}, {"PR_GET_MDWE", 66},  // newer than the headers of Debian 12
    // <asm/prctl.h>, which only x86 has; a profile is read whole on every architecture
    {"ARCH_SET_GS", 0x1001}, {"ARCH_SET_FS", 0x1002}, {"ARCH_GET_FS", 0x1003}, {"ARCH_GET_GS", 0x1004},
    {"ARCH_GET_XCOMP_SUPP", 0x1021}, {"ARCH_GET_XCOMP_PERM", 0x1022}, {"ARCH_REQ_XCOMP_PERM", 0x1023},
};
// clang-format on
#undef NAMED

std::optional<std::uint32_t> find_constant(const Profile& profile, std::string_view text) {
  if (const auto own = profile.constants.find(text); own != profile.constants.end()) return own->second;
  for (const auto& [name, value] : kConstants) {
    if (name == text) return value;
  }
  return std::nullopt;
}

std::uint32_t number_or_constant(const Profile& profile, std::string_view text) {
  if (const auto constant = find_constant(profile, text)) return *constant;
  const bool hex = text.starts_with("0x");
  const auto digits = hex ? text.substr(2) : text;
  std::uint32_t value = 0;
  const auto [end, bad] = std::from_chars(digits.data(), digits.data() + digits.size(), value, hex ? 16 : 10);
  if (bad != std::errc{} || end != digits.data() + digits.size())
    refuse("'{}' is neither a constant nor a number", text);
  return value;
}

// A|B|C
std::uint32_t bits(const Profile& profile, std::string_view text) {
  std::uint32_t all = 0;
  for (std::size_t from = 0; from <= text.size();) {
    const auto to = std::min(text.find('|', from), text.size());
    all |= number_or_constant(profile, text.substr(from, to - from));
    from = to + 1;
  }
  return all;
}

std::uint32_t errno_action(std::string_view name) {
  for (const auto& [known, value] : kErrnos) {
    if (known == name) return SECCOMP_RET_ERRNO | value;
  }
  refuse("unknown errno '{}'", name);
}

constexpr int kLastNumber = 0x3fffffff;  // x32 begins above

struct CallName {
  std::string name;
  bool optional = false;
  std::optional<int> number;
};

CallName parse_call(std::string_view text) {
  CallName call;
  if (text.ends_with('?')) {
    call.optional = true;
    text.remove_suffix(1);
  }
  if (const auto equals = text.find('='); equals != text.npos) {
    const auto digits = text.substr(equals + 1);
    int number = 0;
    const auto [end, bad] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (bad != std::errc{} || end != digits.data() + digits.size() || number < 0 || number > kLastNumber)
      refuse("'{}' has no call number after '='", text);
    call.number = number;
    text = text.substr(0, equals);
  }
  call.name = text;
  return call;
}

// The number of a call on this architecture; none when it has no such call and the profile says that this may be.
std::optional<int> resolve(const CallName& call) {
  const int known = seccomp_syscall_resolve_name(call.name.c_str());
  if (call.number) {
    if (known >= 0 && known != *call.number) refuse("{} is number {}, not {}", call.name, known, *call.number);
    return call.number;
  }
  if (known >= 0) return known;
  // libseccomp gives the calls of other architectures negative numbers of its own. A name it has never heard of is an
  // error even when optional: it is more likely misspelt than new.
  if (known == __NR_SCMP_ERROR) refuse("unknown call '{}'; one too new for libseccomp is '{}=N'", call.name, call.name);
  if (call.optional) return std::nullopt;
  refuse("this architecture has no '{}'; mark it '{}?' if that is fine", call.name, call.name);
}

class Words {
 public:
  explicit Words(const std::string& line) {
    std::istringstream in(line);
    for (std::string word; in >> word;) words_.push_back(word);
  }
  [[nodiscard]] bool done() const { return at_ == words_.size(); }
  [[nodiscard]] bool next_is(std::string_view word) const { return !done() && words_[at_] == word; }
  const std::string& take(std::string_view what) {
    if (done()) refuse("expected {} at the end of the line", what);
    return words_[at_++];
  }
  bool take_if(std::string_view word) {
    if (!next_is(word)) return false;
    ++at_;
    return true;
  }
  void expect(std::string_view word) {
    if (const auto& got = take(word); got != word) refuse("expected '{}', not '{}'", word, got);
  }

 private:
  std::vector<std::string> words_;
  std::size_t at_ = 0;
};

// argN [masked BITS | without BITS] is VALUE... [and ...], or argN null [and ...]
std::vector<Match> parse_tests(const Profile& profile, Words& words) {
  std::vector<Match> matches{Match{}};
  do {
    const auto& name = words.take("argN");
    if (name.size() != 4 || !name.starts_with("arg") || name[3] < '0' || name[3] > '5')
      refuse("expected arg0 to arg5, not '{}'", name);
    const auto arg = static_cast<std::size_t>(name[3] - '0');
    if (matches.front().mask[arg] != 0) refuse("{} is tested twice", name);
    std::uint32_t mask = 0xffffffff;
    if (words.take_if("null")) {
      for (auto& match : matches) match.mask[arg] = match.mask[arg + 6] = mask;
      continue;
    }
    if (words.take_if("masked")) {
      mask = bits(profile, words.take("the bits to look at"));
    } else if (words.take_if("without")) {
      mask = ~bits(profile, words.take("the bits to ignore"));
    }
    if (mask == 0) refuse("{} is tested in no bit at all", name);
    words.expect("is");
    std::vector<Match> next;
    do {
      const auto value = bits(profile, words.take("a value"));
      if ((value & ~mask) != 0) refuse("{:#x} can never be equal: it has bits outside {:#x}", value, mask);
      for (auto match : matches) {
        match.mask[arg] = mask;
        match.value[arg] = value;
        next.push_back(match);
      }
    } while (!words.done() && !words.next_is("and"));
    matches = std::move(next);
  } while (words.take_if("and"));
  return matches;
}

void parse_rule(Profile& profile, std::uint32_t action, Words& words, int line) {
  std::vector<CallName> names;
  while (!words.done() && !words.next_is("if")) names.push_back(parse_call(words.take("a call")));
  if (names.empty()) refuse("no call is named");
  const auto matches = words.take_if("if") ? parse_tests(profile, words) : std::vector<Match>{Match{}};
  for (const auto& name : names) {
    const auto number = resolve(name);
    if (!number) continue;
    auto& [known_as, clauses] = profile.calls[*number];
    if (!known_as.empty() && known_as != name.name)
      refuse("{} and {} are both number {}", name.name, known_as, *number);
    known_as = name.name;
    for (const auto& match : matches) {
      for (const auto& earlier : clauses) {
        if (earlier.match.covers(match)) refuse("{} never comes here: line {} decides it", name.name, earlier.line);
      }
      clauses.push_back({.action = action, .match = match, .line = line});
    }
  }
}

void parse_entry(Profile& profile, const std::string& text, int line) {
  Words words(text);
  if (words.done()) return;
  const auto verb = words.take("a verb");
  if (verb == "default") {
    if (profile.otherwise) refuse("there is a default already");
    words.expect("errno");
    profile.otherwise = errno_action(words.take("an errno"));
  } else if (verb == "foreign-arch") {
    words.expect("kill");
    profile.foreign = SECCOMP_RET_KILL_PROCESS;
  } else if (verb == "let") {
    const auto name = words.take("a name");
    words.expect("=");
    const auto value = bits(profile, words.take("a value"));
    if (find_constant(profile, name)) refuse("{} already has a value", name);
    profile.constants[name] = value;
  } else if (verb == "allow") {
    parse_rule(profile, SECCOMP_RET_ALLOW, words, line);
  } else if (verb == "ignore") {
    parse_rule(profile, SECCOMP_RET_ERRNO | 0, words, line);
  } else if (verb == "errno") {
    const auto action = errno_action(words.take("an errno"));
    parse_rule(profile, action, words, line);
  } else {
    refuse("unknown verb '{}'", verb);
  }
  if (!words.done()) refuse("'{}' is left over", words.take(""));
}

}  // namespace

Profile read_profile(std::istream& in, int& line) {
  Profile profile;
  std::string entry;
  line = 0;
  for (std::string text; std::getline(in, text);) {
    ++line;
    entry += text.substr(0, text.find('#'));
    if (entry.ends_with('\\')) {
      entry.back() = ' ';
      continue;
    }
    parse_entry(profile, entry, line);
    entry.clear();
  }
  if (!entry.empty()) refuse("the last line goes on, but nothing follows");
  return profile;
}

}  // namespace cove::profiles
