#include "cli/run/run_command.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "base/io.hpp"
#include "base/units.hpp"
#include "cli/console.hpp"
#include "cli/interrupt.hpp"
#include "cli/run/file_transfer.hpp"
#include "cli/run/one_shot.hpp"
#include "cli/run/run_network.hpp"
#include "cli/run/run_report.hpp"
#include "cli/run/template_root.hpp"
#include "config/languages.hpp"
#include "guest/environment.hpp"

namespace cove::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kInlineLimit = 1U << 20;     // larger sources are streamed in
constexpr std::uint64_t kFloodBytes = 1ULL << 30;  // thrown away before the run is ended
constexpr std::size_t kSourceLimit = std::size_t{64} << 20;

// Cove itself failed, or the program could not be started.
struct Trouble {
  int status = 125;
  std::string message;
};
template <typename T>
using Attempt = tl::expected<T, Trouble>;

Trouble trouble(const Error& error) {
  return {.status = 125, .message = error.message};
}

// What will be run: its command line, and the source that must be put in first.
struct Program {
  std::vector<std::string> argv;
  std::string source_path;  // inside; empty for a command
  std::string source;
  std::uint32_t source_mode = 0644;
  std::optional<config::Language> language;
};

Result<std::string> source_of(const RunOptions& options) {
  if (options.code) return *options.code;
  const auto& name = options.words.front();
  auto text = name == "-" ? read_all(STDIN_FILENO, kSourceLimit) : read_file_at(AT_FDCWD, name, kSourceLimit);
  if (!text && text.error().sys_errno == ENOENT)
    return fail(Errc::not_found, fmt::format("{}: no such file (to run a command, put -- before it)", name));
  return text;
}

Result<Program> program_for(const RunOptions& options) {
  Program program;
  if (options.is_command) {
    program.argv = options.words;
    return program;
  }
  const bool named = !options.code && options.words.front() != "-";
  COVE_TRY(program.source, source_of(options));
  COVE_TRY(const auto languages, config::Languages::built_in());
  std::string name;
  if (!options.language.empty()) {
    COVE_TRY(program.language, languages.by_name(options.language));
  } else if (named && program.source.starts_with("#!") && !languages.by_file(options.words.front())) {
    program.source_mode = 0755;  // it says itself what runs it
  } else {
    COVE_TRY(program.language, named ? languages.by_file(options.words.front()) : languages.by_name("python"));
  }
  name = named ? fs::path(options.words.front()).filename().string() : "main" + program.language->extensions.front();
  program.source_path = options.workdir + "/" + name;
  program.argv = program.language ? config::command_line(program.language->command, program.source_path)
                                  : std::vector{program.source_path};
  const auto arguments = options.code ? options.words.begin() : options.words.begin() + 1;
  program.argv.insert(program.argv.end(), arguments, options.words.end());
  return program;
}

std::vector<std::string> environment_for(const RunOptions& options, const TemplateRoot& from) {
  auto environment = guest::base_environment(share_of(options.limits));
  if (options.terminal) {
    const char* term = std::getenv("TERM");
    environment.push_back(std::string("TERM=") + (term == nullptr ? "xterm" : term));
  }
  for (const auto& variable : from.variables) guest::set_variable(environment, variable);
  for (const auto& variable : options.environment) guest::set_variable(environment, variable);
  return environment;
}

// What the host cannot enforce of what every run asks for.
std::vector<std::string> shortcomings(const keeper::Enforcement& enforcement) {
  std::vector<std::string> missing;
  if (!enforcement.memory) missing.emplace_back("memory: limited for each process, not for their sum");
  if (!enforcement.cpu) missing.emplace_back("cpus: not limited");
  if (enforcement.landlock_abi == 0) missing.emplace_back("landlock: the kernel has none");
  return missing;
}

Result<UniqueFd> memory_file(std::string_view content) {
  UniqueFd fd(::memfd_create("source", MFD_CLOEXEC));
  if (!fd) return fail_errno(errno, "memfd_create");
  COVE_CHECK(write_all(fd.get(), content));
  ::lseek(fd.get(), 0, SEEK_SET);
  return fd;
}

// Why the program never ran, in the words and with the status of a shell.
Trouble explain(const wire::SpawnFailed& failure, const Program& program, const RunOptions& options) {
  const std::string why = std::strerror(failure.sys_errno);
  switch (failure.stage) {
    case wire::SpawnStage::directory:
      return {.status = 125, .message = fmt::format("--workdir {}: {}", options.workdir, why)};
    case wire::SpawnStage::files:
      return {.status = 125, .message = fmt::format("could not write the program into the sandbox: {}", why)};
    case wire::SpawnStage::terminal:
      return {.status = 125, .message = fmt::format("could not make a terminal: {}", why)};
    case wire::SpawnStage::fork:
      return {.status = 125, .message = fmt::format("could not start a process: {}", why)};
    case wire::SpawnStage::program:
      break;
  }
  const auto& name = program.argv.front();
  const bool missing = failure.sys_errno == ENOENT;
  if (missing && program.language) {
    return {.status = 127,
            .message = fmt::format("{} needs '{}', which is not installed; install the package {} on the host",
                                   program.language->name, name, program.language->package)};
  }
  if (missing) return {.status = 127, .message = fmt::format("{}: command not found in the sandbox", name)};
  return {.status = 126, .message = fmt::format("{}: cannot be run: {}", name, why)};
}

class Run {
 public:
  explicit Run(const RunOptions& options) : options_(options) {}
  int execute();

 private:
  Attempt<RunReport> attempt();
  Attempt<ProcessEnd> run_program(OneShot& shot, const Program& program, Feed& feed);
  Result<UniqueFd> open_input();

  const RunOptions& options_;
  TemplateRoot from_;
};

Result<UniqueFd> Run::open_input() {
  const bool consumed = !options_.is_command && !options_.code && options_.words.front() == "-";
  if (options_.standard_input == "none" || consumed) return UniqueFd();
  if (options_.standard_input == "inherit") return UniqueFd(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  auto fd = open_at(AT_FDCWD, options_.standard_input, O_RDONLY);
  if (!fd) return fail(fd.error().code, fmt::format("--stdin: {}", fd.error().message));
  return fd;
}

Attempt<ProcessEnd> Run::run_program(OneShot& shot, const Program& program, Feed& feed) {
  wire::Spawn spawn{
      .terminal = options_.terminal ? wire::Terminal::yes : wire::Terminal::no,
      // Nothing is wanted of the sandbox afterwards: it can go at once.
      .after_exit = options_.outs.empty() ? wire::AfterExit::end_sandbox : wire::AfterExit::stay,
      .output_limit = {.bytes = options_.output_limit, .kept = wire::Kept::both_ends},
      .flood_limit = kFloodBytes,
      .directory = options_.workdir,
      .argv = program.argv,
      .environment = environment_for(options_, from_),
  };
  if (!program.source_path.empty() && program.source.size() <= kInlineLimit) {
    spawn.files.push_back({.path = program.source_path, .mode = program.source_mode, .content = program.source});
  } else if (!program.source_path.empty()) {
    auto file = memory_file(program.source);
    if (!file) return tl::unexpected(trouble(file.error()));
    if (auto copied = put_file(shot, file->get(), program.source_path, program.source_mode); !copied)
      return tl::unexpected(trouble(copied.error()));
  }
  winsize size{};
  if (options_.terminal && ::ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0) {
    spawn.rows = size.ws_row;
    spawn.columns = size.ws_col;
  }
  std::optional<RawTerminal> raw;
  if (options_.terminal) raw.emplace();
  auto end = shot.run(spawn, feed, options_.timeout);
  raw.reset();
  if (!end) return tl::unexpected(trouble(end.error()));
  if (end->not_started) return tl::unexpected(explain(*end->not_started, program, options_));
  return *end;
}

Attempt<RunReport> Run::attempt() {
  auto program = program_for(options_);
  if (!program) return tl::unexpected(trouble(program.error()));
  auto input = open_input();
  if (!input) return tl::unexpected(trouble(input.error()));

  auto from = find_template(options_.state_dir, options_.template_name);
  if (!from) return tl::unexpected(trouble(from.error()));
  from_ = std::move(*from);

  // Until here a signal simply ends us; from here on there is something to take down first.
  block_cancel_signals();
  std::optional<RunNetwork> network;
  if (options_.network.mode != egress::Mode::none) {
    auto started = RunNetwork::start(options_.resolver);
    if (!started) return tl::unexpected(trouble(started.error()));
    network.emplace(std::move(*started));
  }
  auto keeper = keeper::Keeper::start({.state_dir = options_.state_dir});
  if (!keeper) return tl::unexpected(trouble(keeper.error()));
  RunReport report;
  report.enforcement = keeper->enforcement();
  report.degraded = shortcomings(report.enforcement);
  if (!report.degraded.empty() && !options_.allow_degraded) {
    std::string list;
    for (const auto& item : report.degraded) list += "\n  " + item;
    return tl::unexpected(Trouble{
        .message = fmt::format(
            "this host cannot enforce:{}\n({}). `cove doctor` says how to fix it; --allow-degraded runs anyway.", list,
            report.enforcement.cgroup_shortcoming)});
  }

  auto shot = OneShot::create(
      keeper->link(), {.limits = options_.limits,
                       .terminal = options_.terminal ? wire::SandboxTerminal::available : wire::SandboxTerminal::none,
                       .root = from_.number});
  if (!shot) return tl::unexpected(trouble(shot.error()));
  if (network) {
    if (auto opened = network->open(*shot, options_.network); !opened)
      return tl::unexpected(Trouble{.message = fmt::format("--net: {}", opened.error().message)});
  }
  for (const auto& file : options_.files) {
    auto copied = put_tree(*shot, file);
    if (!copied && shot->cancel_signal() != 0)
      return tl::unexpected(Trouble{.status = 128 + shot->cancel_signal(), .message = "cancelled"});
    if (!copied) {
      const auto disk = copied.error().code == Errc::over_limit
                            ? fmt::format(" (--disk is {})", format_size(options_.limits.disk_bytes))
                            : std::string();
      return tl::unexpected(
          Trouble{.message = fmt::format("--file {}: {}{}", file.host_path, copied.error().message, disk)});
    }
  }
  Feed feed{.input_fd = input->get()};
  if (!options_.json) {
    feed.out.fd = STDOUT_FILENO;
    feed.err.fd = STDERR_FILENO;
  }
  auto end = run_program(*shot, *program, feed);
  if (!end) return tl::unexpected(end.error());

  if (const auto& broken = shot->output_error()) return tl::unexpected(trouble(*broken));
  report.stopped_by_us = shot->stopped_by_us();
  report.cancel_signal = shot->cancel_signal();
  report.end = *end;
  report.out = std::move(feed.out.captured);
  report.err = std::move(feed.err.captured);
  // The run is over: nothing it left behind may meddle with the copying.
  if (!options_.outs.empty()) shot->kill_everything();
  for (const auto& file : options_.outs) {
    const auto copied = get_tree(*shot, file, options_.limits.disk_bytes);
    CopiedOut out{.file = file, .bytes = copied.value_or(0)};
    if (!copied) {
      // The helper inside has no errno to tell: those are of our side.
      out.missing = copied.error().code == Errc::not_found && copied.error().sys_errno == 0;
      out.error = copied.error().message + (out.missing ? ": the program did not make it" : "");
    }
    report.outs.push_back(std::move(out));
  }
  report.uid = shot->uid();
  auto gone = shot->destroy();
  if (!gone) return tl::unexpected(trouble(gone.error()));
  report.counted = *gone;
  if (network) report.refused = network->refused();
  return report;
}

int Run::execute() {
  const auto report = attempt();
  if (!report) {
    tell("{}", report.error().message);
    if (options_.json) [[maybe_unused]]
      const auto put = put_line(json_of_error(report.error().status, report.error().message));
    return report.error().status;
  }
  return publish(*report, options_);
}

}  // namespace

int run_command(const RunOptions& options) {
  return Run(options).execute();
}

void add_run_command(App& app, Commands& commands) {
  auto* command = app.add_subcommand("run", "Run a program in a sandbox of its own, and leave nothing behind");
  const auto arguments = std::make_shared<RunArguments>();
  describe(*command, *arguments);
  commands.push_back({command, [command, arguments](const AfterDashes& after) {
                        auto words = command->remaining();
                        if (!words.empty() && words.front().size() > 1 && words.front().starts_with('-')) {
                          return refuse_usage(fmt::format("{}: there is no such option (cove run --help lists them; "
                                                          "put -- before words that are the program's own)",
                                                          words.front()),
                                              arguments->json);
                        }
                        const bool is_command = words.empty() && arguments->code.empty() && after;
                        // `cove run tool.py a -- b`: the program was named before the dashes, so they are its own.
                        if (!words.empty() && after) words.emplace_back("--");
                        if (after) words.insert(words.end(), after->begin(), after->end());
                        const auto options = checked(*arguments, std::move(words), is_command);
                        if (!options) return refuse_usage(options.error().message, arguments->json);
                        return run_command(*options);
                      }});
}

}  // namespace cove::cli
