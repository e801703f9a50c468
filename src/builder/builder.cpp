#include "builder/builder.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <functional>
#include <span>

#include "base/io.hpp"
#include "base/names.hpp"
#include "base/text.hpp"
#include "base/umask.hpp"
#include "base/units.hpp"
#include "builder/assemble.hpp"
#include "builder/bootstrap.hpp"
#include "builder/inside.hpp"
#include "builder/tree.hpp"
#include "host/state_dir.hpp"

namespace cove::builder {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kPartial = ".partial-";
constexpr const char* kGone = ".gone-";
constexpr std::chrono::milliseconds kMeasureInterval{1000};
constexpr int kPolite = 10;  // sandboxes come first

struct Order {
  std::vector<std::string> packages;
  std::vector<std::string> preload;
};

template <std::size_t N>
Result<std::vector<std::string>> names_of(const char (&text)[N], bool (*good)(std::string_view)) {
  std::vector<std::string> names;
  for (std::string_view rest(text, ::strnlen(text, N)); !rest.empty();) {
    const auto name = take_until(rest, '\n');
    if (!good(name)) return fail(Errc::invalid, "a package name in the request is not valid");
    names.emplace_back(name);
  }
  return names;
}

class Builder {
 public:
  explicit Builder(Job job) : job_(std::move(job)), directory_(host::templates_directory(job_.state_dir)) {}
  Result<> run();

 private:
  [[nodiscard]] std::string name(const char* prefix = "") const {
    return fmt::format("{}{}", prefix, job_.request.number);
  }
  [[nodiscard]] std::string path(const char* prefix = "") const { return directory_ + "/" + name(prefix); }
  Result<> build();
  Result<> remove();
  Result<> sweep();
  // Whether work ends when its time is over or nobody waits for it any more; tidying up does not.
  enum class Until { wanted, done };
  Result<> do_inside(const std::string& directory, Until until, const std::function<Result<>()>& work);
  Result<> bootstrap(const std::string& partial, const Order& order);
  Result<> wait_for(Inside& inside, Until until, std::string_view what);
  Result<> check_size();
  Result<> erase(const std::string& name);

  Job job_;
  std::string directory_;
  host::Identity identity_;
  Clock::time_point until_ = Clock::now() + std::chrono::hours(1);
  Clock::time_point measure_at_{};
};

void say(int answer, std::string_view line) {
  // Whoever does not read any more has no use for it.
  [[maybe_unused]] const auto said = write_all(answer, fmt::format("{}\n", line));
}

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

// Looking takes a while in a large tree: it is done at most for a tenth of the time.
Result<> Builder::check_size() {
  const auto begun = Clock::now();
  if (job_.request.max_bytes == 0 || begun < measure_at_) return {};
  const auto bytes = disk_usage(path(kPartial));
  measure_at_ = Clock::now() + std::max<Clock::duration>(kMeasureInterval, (Clock::now() - begun) * 10);
  if (bytes <= job_.request.max_bytes) return {};
  return fail(
      Errc::over_limit,
      fmt::format("the build took {} on disk, more than templates.build_size ({}), and was ended: ask for fewer "
                  "packages, or have the setting raised",
                  format_size(bytes), format_size(job_.request.max_bytes)));
}

Result<> Builder::wait_for(Inside& inside, Until until, std::string_view what) {
  while (until == Until::wanted) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until_ - Clock::now()).count();
    if (left <= 0) return fail(Errc::over_limit, "the build took longer than it may, and was ended");
    pollfd fds[] = {{.fd = inside.pidfd(), .events = POLLIN, .revents = 0},
                    {.fd = job_.answer.get(), .events = 0, .revents = 0}};
    if (::poll(fds, 2, static_cast<int>(std::min<std::int64_t>(left, kMeasureInterval.count()))) < 0 && errno != EINTR)
      return fail_errno(errno, "poll");
    COVE_CHECK(check_size());
    if (fds[1].revents != 0) return fail(Errc::conflict, "the build was cancelled");
    if (fds[0].revents != 0) break;
  }
  const int status = inside.wait();
  if (status == 0) return {};
  return fail(Errc::io, fmt::format("{} ended with status {}", what, status));
}

// Work of ours that must not be done with the host's root; its own failure is told in its own words.
Result<> Builder::do_inside(const std::string& directory, Until until, const std::function<Result<>()>& work) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno(errno, "pipe");
  UniqueFd hears(ends[0]);
  UniqueFd tells(ends[1]);
  COVE_TRY(auto inside, Inside::start(identity_, directory, [&] {
             const auto done = work();
             if (!done) [[maybe_unused]]
               const auto said = write_all(tells.get(), done.error().message);
             return done ? 0 : 1;
           }));
  tells.reset();
  auto done = wait_for(inside, until, "the work on the root");
  if (done || done.error().code != Errc::io) return done;
  const auto words = read_all(hears.get(), 4096);
  return words && !words->empty() ? fail(Errc::io, *words) : done;
}

// What packages' scripts made belongs to ids that only root, or the user inside, may remove.
Result<> Builder::erase(const std::string& name) {
  const auto path = directory_ + "/" + name;
  if (::geteuid() == 0) return remove_tree(path);
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0 && errno == ENOENT) return {};
  return do_inside(directory_, Until::done, [&] { return remove_tree(fmt::format("{}/{}", kShown, name)); });
}

Result<> Builder::bootstrap(const std::string& partial, const Order& order) {
  COVE_TRY(const auto command, bootstrap_command(std::string(kShown) + "/image", order.packages));
  COVE_TRY(auto inside, Inside::start(identity_, partial, [&] { return run_bootstrap(command, job_.log.get()); }));
  return wait_for(inside, Until::wanted, "mmdebstrap");
}

Result<> Builder::build() {
  Order order;
  COVE_TRY(order.packages, names_of(job_.request.packages, is_package_name));
  COVE_TRY(order.preload, names_of(job_.request.preload, is_module_name));
  until_ = Clock::now() + std::chrono::seconds(job_.request.timeout_seconds);
  const auto partial = path(kPartial);
  COVE_CHECK(erase(name(kPartial)));
  if (::mkdir(partial.c_str(), 0755) != 0) return fail_errno(errno, "make {}", partial);
  const auto make = [&]() -> Result<> {
    const auto image = partial + "/image";
    if (::mkdir(image.c_str(), 0755) != 0) return fail_errno(errno, "make {}", image);
    if (::geteuid() == 0) COVE_CHECK(give_to(partial, identity_.first, identity_.first_group));
    COVE_CHECK(bootstrap(partial, order));
    COVE_CHECK(do_inside(partial, Until::wanted, [&]() -> Result<> {
      COVE_TRY(const auto contents, assemble(kShown, order.preload));
      // Rootless, everything is the user's from here on.
      if (identity_.mode == host::IdentityMode::subuid) COVE_CHECK(give_to(kShown, 0, 0));
      const int answer = job_.answer.get();
      for (const auto& language : contents.languages) say(answer, fmt::format("language {}", language));
      for (const auto& [name, version] : contents.installed) say(answer, fmt::format("installed {} {}", name, version));
      if (contents.kernels) say(answer, "kernels");
      say(answer, fmt::format("size {}", contents.size_bytes));
      return {};
    }));
    // Nobody's, as seen from every sandbox, whatever ids a keeper takes later.
    if (::geteuid() == 0) COVE_CHECK(give_to(partial, 0, 0));
    if (::rename(partial.c_str(), path().c_str()) != 0) return fail_errno(errno, "move {} into place", partial);
    return {};
  };
  auto made = make();
  if (!made) {
    if (const auto erased = erase(name(kPartial)); !erased) say(job_.log.get(), erased.error().message);
  }
  return made;
}

// Out of sight first: who looks for it finds all of it or nothing.
Result<> Builder::remove() {
  COVE_CHECK(erase(name(kPartial)));
  if (::rename(path().c_str(), path(kGone).c_str()) != 0 && errno != ENOENT)
    return fail_errno(errno, "move {} away", path());
  return erase(name(kGone));
}

Result<> Builder::sweep() {
  const auto& request = job_.request;
  const std::span kept(request.numbers, std::min<std::size_t>(request.count, wire::kMaxTemplates));
  std::vector<std::string> stale;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(directory_, failed)) {
    auto found = entry.path().filename().string();
    if (std::ranges::none_of(kept, [&](std::uint32_t number) { return found == std::to_string(number); }))
      stale.push_back(std::move(found));
  }
  if (failed) return fail_errno(failed.value(), "list {}", directory_);
  for (const auto& one : stale) COVE_CHECK(erase(one));
  return {};
}

Result<> Builder::run() {
  COVE_TRY(identity_, host::choose_identity());
  switch (job_.request.verb) {
    case wire::SupervisorVerb::build_template:
      return build();
    case wire::SupervisorVerb::remove_template:
      return remove();
    case wire::SupervisorVerb::sweep_templates:
      return sweep();
    default:
      return fail(Errc::invalid, "unknown request");
  }
}

// Our standard descriptors, the two of the job, and nothing else of the supervisor's: its lock on the state directory
// must not live on in us.
bool keep_only(Job& job) {
  if (!job.log) job.log.reset(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  const int answer = ::fcntl(job.answer.get(), F_DUPFD_CLOEXEC, 10);
  const int log = ::fcntl(job.log.get(), F_DUPFD_CLOEXEC, 10);
  if (null < 0 || answer < 0 || log < 0) return false;
  for (int fd = 0; fd <= 2; ++fd) {
    if (::dup2(null, fd) < 0) return false;
  }
  job.answer.reset();
  job.log.reset();
  if (::dup3(answer, 3, O_CLOEXEC) < 0 || ::dup3(log, 4, O_CLOEXEC) < 0) return false;
  ::syscall(SYS_close_range, 5U, ~0U, 0);
  job.answer.reset(3);
  job.log.reset(4);
  return true;
}

}  // namespace

int work(Job job) {
  const pid_t parent = ::getppid();
  ::prctl(PR_SET_NAME, "cove-builder");
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (::getppid() != parent) return 1;
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  [[maybe_unused]] const int niceness = ::setpriority(PRIO_PROCESS, 0, kPolite);
  // A host short of memory takes a build before it takes a sandbox.
  [[maybe_unused]] const auto volunteered = write_file_at(AT_FDCWD, "/proc/self/oom_score_adj", "600");
  const UmaskScope umask(022);
  if (!job.answer || !keep_only(job)) return 1;
  const int answer = job.answer.get();
  Builder builder(std::move(job));
  const auto done = builder.run();
  say(answer, done ? "done" : fmt::format("failed {}", one_line(done.error().message)));
  return done ? 0 : 1;
}

}  // namespace cove::builder
