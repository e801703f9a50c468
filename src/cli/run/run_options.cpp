#include "cli/run/run_options.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "base/units.hpp"
#include "egress/dns_client.hpp"
#include "host/state_dir.hpp"

namespace cove::cli {
namespace {

constexpr std::uint64_t kMiB = 1U << 20;

// "thing: what is wrong": the error names the option.
template <typename T>
Result<T> named(const char* option, Result<T> value) {
  if (!value) return fail(value.error().code, fmt::format("{}: {}", option, value.error().message));
  return value;
}

Result<std::uint64_t> size_between(const char* option, const std::string& text, std::uint64_t least,
                                   std::uint64_t most) {
  COVE_TRY(const auto bytes, named(option, parse_size(text)));
  if (bytes < least || bytes > most)
    return fail(Errc::invalid,
                fmt::format("{}: {} is outside {} to {}", option, text, format_size(least), format_size(most)));
  return bytes;
}

Result<std::uint32_t> cpu_millis(const std::string& text) {
  double cpus = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), cpus);
  if (ec != std::errc{} || end != text.data() + text.size() || !(cpus >= 0.01) || cpus > 1024) {
    return fail(Errc::invalid, fmt::format("--cpus: '{}' is not a number of cores between 0.01 and 1024", text));
  }
  return static_cast<std::uint32_t>(std::lround(cpus * 1000));
}

Result<std::string> variable(const std::string& text) {
  const auto equals = text.find('=');
  const auto name = text.substr(0, equals);
  const bool good = equals != std::string::npos && !name.empty() &&
                    (std::isalpha(static_cast<unsigned char>(name[0])) != 0 || name[0] == '_') &&
                    std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
  if (!good) return fail(Errc::invalid, fmt::format("--env: '{}' is not NAME=VALUE", text));
  return text;
}

std::string inside(const std::string& workdir, const std::string& path) {
  return (path.starts_with('/') ? std::filesystem::path(path) : std::filesystem::path(workdir) / path)
      .lexically_normal();
}

Result<HostFile> file_in(const std::string& workdir, const std::string& text) {
  // A colon may be part of a host name: the whole text wins if it exists.
  std::error_code ec;
  const auto colon = std::filesystem::exists(text, ec) ? std::string::npos : text.rfind(':');
  const auto host = text.substr(0, colon);
  if (host.empty()) return fail(Errc::invalid, fmt::format("--file: '{}' is not HOST or HOST:PATH", text));
  const auto name =
      colon == std::string::npos ? std::filesystem::path(host).filename().string() : text.substr(colon + 1);
  if (name.empty()) return fail(Errc::invalid, fmt::format("--file: '{}' names no path in the sandbox", text));
  return HostFile{.host_path = host, .sandbox_path = inside(workdir, name)};
}

Result<HostFile> file_out(const std::string& workdir, const std::string& text) {
  const auto colon = text.find(':');
  if (colon == 0 || colon == std::string::npos || colon + 1 == text.size())
    return fail(Errc::invalid, fmt::format("--out: '{}' is not PATH:HOST", text));
  return HostFile{.host_path = text.substr(colon + 1), .sandbox_path = inside(workdir, text.substr(0, colon))};
}

}  // namespace

void describe(App& command, RunArguments& arguments) {
  command.prefix_command();
  command.usage(
      "Usage: cove run [OPTIONS] -c CODE [ARGS…]    run CODE (--lang says in what, default python)\n"
      "       cove run [OPTIONS] FILE [ARGS…]       run a file; its name tells the language\n"
      "       cove run [OPTIONS] - [ARGS…]          the program comes on standard input\n"
      "       cove run [OPTIONS] -- CMD [ARGS…]     run any command\n");
  const auto group = [&](Option* option, const char* name) { option->group(name); };
  group(command.add_option("-l,--lang", arguments.language,
                           "Language: python, javascript, bash, … (an unknown name lists them)"),
        "What to run");
  group(command.add_option("-c,--code", arguments.code, "The program itself")->expected(1)->allow_extra_args(false),
        "What to run");
  group(command.add_option("-e,--env", arguments.environment, "NAME=VALUE for its environment; may be given again")
            ->expected(1)
            ->take_all()
            ->allow_extra_args(false),
        "What to run");
  group(command.add_option("--workdir", arguments.workdir, "Working directory inside")->capture_default_str(),
        "What to run");
  group(command.add_option("--stdin", arguments.standard_input, "inherit (pass ours on), none, or a file")
            ->capture_default_str()
            ->expected(0, 1),
        "What to run");
  group(command.add_flag("-t,--tty", arguments.terminal, "Give it a terminal"), "What to run");
  group(command.add_option("--file", arguments.files, "HOST[:PATH]: copy a file or directory in; may be given again")
            ->expected(1)
            ->take_all()
            ->allow_extra_args(false),
        "Files");
  group(command
            .add_option("--out", arguments.outs,
                        "PATH:HOST: copy a file or directory out when it has ended; may be given again")
            ->expected(1)
            ->take_all()
            ->allow_extra_args(false),
        "Files");
  group(command.add_option("--timeout", arguments.timeout, "Wall time, as 500ms, 30s, 2m")->capture_default_str(),
        "Limits");
  group(command.add_option("--memory", arguments.memory, "Memory, as 512M, 1Gi")->capture_default_str(), "Limits");
  group(command.add_option("--cpus", arguments.cpus, "Cores, as 0.5, 2")->capture_default_str(), "Limits");
  group(command.add_option("--pids", arguments.pids, "Processes and threads")->capture_default_str(), "Limits");
  group(command.add_option("--disk", arguments.disk, "Files it may write, below --memory (default half of --memory)"),
        "Limits");
  group(command
            .add_option("--output-limit", arguments.output_limit,
                        "Bytes kept of stdout and of stderr; more is dropped and counted")
            ->capture_default_str(),
        "Limits");
  group(command.add_option("--net", arguments.network,
                           "Way out: none, allow (what --allow lists) or public (every public address); none, or allow "
                           "with --allow"),
        "Network");
  group(command
            .add_option("--allow", arguments.allow,
                        "Name, address or network that may be connected to, such as example.com:443, *.example.com or "
                        "192.0.2.0/24; may be given again")
            ->expected(1)
            ->take_all()
            ->allow_extra_args(false),
        "Network");
  group(command.add_option("--deny", arguments.deny, "The same for what may not, whatever else allows it")
            ->expected(1)
            ->take_all()
            ->allow_extra_args(false),
        "Network");
  group(command.add_option("--resolver", arguments.resolver, "Name server, as ADDRESS[:PORT] (default: the system's)"),
        "Network");
  group(command
            .add_option("--template", arguments.template_name,
                        "What it starts from: host, or a template that `cove template build` made")
            ->capture_default_str(),
        "Isolation");
  group(command.add_flag("--allow-degraded", arguments.allow_degraded,
                         "Run although this host cannot enforce every limit; the result names them"),
        "Isolation");
  group(command.add_option("--state-dir", arguments.state_dir,
                           "Where Cove keeps what it builds once (default " + host::default_state_dir() + ")"),
        "Isolation");
  group(command.add_flag("--json", arguments.json, "Print one JSON object instead of the streams"), "Output");
  group(command.add_flag("-q,--quiet", arguments.quiet, "No line of our own on stderr when a limit ended the run"),
        "Output");
  command.footer(
      "Exit status: the program's own; 123 --out names what it did not make, 124 timeout, 125 Cove itself failed, 126 "
      "not executable, 127 not found, 128+n "
      "killed by signal n.\n"
      "Examples:\n"
      "  cove run -c 'print(6*7)'\n"
      "  cove run --memory 1Gi --timeout 2m --file data.csv --out plot.png:plot.png analyse.py data.csv\n"
      "  echo hello | cove run -- tr a-z A-Z\n"
      "  cove run --allow example.com:443 -- curl -sS https://example.com/\n"
      "  cove run --json --lang javascript -c 'console.log(1)'");
}

namespace {

Result<std::vector<egress::Target>> targets_of(std::string_view option, const std::vector<std::string>& texts) {
  std::vector<egress::Target> targets;
  for (const auto& text : texts) {
    auto target = egress::parse_target(text);
    if (!target) return fail(Errc::invalid, fmt::format("{} {}: {}", option, text, target.error().message));
    targets.push_back(std::move(*target));
  }
  return targets;
}

// Whoever runs a command on this machine may let it reach whatever they reach themselves.
Result<egress::Policy> network_of(const RunArguments& arguments) {
  egress::Policy policy;
  COVE_TRY(policy.allow, targets_of("--allow", arguments.allow));
  COVE_TRY(policy.deny, targets_of("--deny", arguments.deny));
  const auto& mode = arguments.network;
  if (mode == "allow" || (mode.empty() && !policy.allow.empty()))
    policy.mode = egress::Mode::allow;
  else if (mode == "public")
    policy.mode = egress::Mode::open;
  else if (!mode.empty() && mode != "none")
    return fail(Errc::invalid, fmt::format("--net: '{}' must be none, allow or public", mode));
  if (policy.mode == egress::Mode::none && !policy.allow.empty())
    return fail(Errc::invalid, "--allow: contradicts --net none");
  if (mode.empty() && policy.mode == egress::Mode::none && !policy.deny.empty())
    return fail(Errc::invalid, "--deny alone would allow nothing: add --net public, or --allow");
  return policy;
}

}  // namespace

Result<RunOptions> checked(const RunArguments& arguments, std::vector<std::string> words, bool is_command) {
  RunOptions options;
  options.language = arguments.language;
  if (!arguments.code.empty()) options.code = arguments.code.front();
  options.words = std::move(words);
  options.is_command = is_command;
  if (options.words.empty() && !options.code) {
    return fail(
        Errc::invalid,
        "nothing to run: give -c CODE, a FILE, - for standard input, or -- and a command (see cove run --help)");
  }
  if (is_command && (options.code || !options.language.empty()))
    return fail(Errc::invalid, "-c and --lang cannot be combined with a command after --");

  COVE_TRY(options.timeout, named("--timeout", parse_duration(arguments.timeout)));
  if (options.timeout.count() == 0) return fail(Errc::invalid, "--timeout: must be greater than 0");
  COVE_TRY(options.limits.memory_bytes, size_between("--memory", arguments.memory, 8 * kMiB, 1ULL << 44));
  COVE_TRY(options.limits.cpu_millis, cpu_millis(arguments.cpus));
  if (arguments.pids < 2 || arguments.pids > 1'000'000)
    return fail(Errc::invalid, "--pids: must be between 2 and 1000000");
  options.limits.pids = arguments.pids;
  if (arguments.disk.empty()) {
    options.limits.disk_bytes = options.limits.memory_bytes / 2;
  } else {
    COVE_TRY(options.limits.disk_bytes, size_between("--disk", arguments.disk, kMiB / 4, 1ULL << 44));
    if (options.limits.disk_bytes >= options.limits.memory_bytes) {
      return fail(
          Errc::invalid,
          fmt::format(
              "--disk: {} must be below --memory ({}), because a sandbox's files live in its memory; raise --memory",
              format_size(options.limits.disk_bytes), format_size(options.limits.memory_bytes)));
    }
  }
  // Enough for source trees; each inode also costs memory.
  options.limits.inodes = std::clamp<std::uint64_t>(options.limits.disk_bytes / 4096, 1024, 1'000'000);
  COVE_TRY(options.output_limit, size_between("--output-limit", arguments.output_limit, 0, 1ULL << 40));
  for (const auto& text : arguments.environment) {
    COVE_TRY(auto checked_variable, variable(text));
    options.environment.push_back(std::move(checked_variable));
  }
  if (!arguments.workdir.starts_with('/')) return fail(Errc::invalid, "--workdir: must be absolute");
  options.workdir = arguments.workdir;
  for (const auto& text : arguments.files) {
    COVE_TRY(auto file, file_in(options.workdir, text));
    options.files.push_back(std::move(file));
  }
  for (const auto& text : arguments.outs) {
    COVE_TRY(auto file, file_out(options.workdir, text));
    options.outs.push_back(std::move(file));
  }
  COVE_TRY(options.network, network_of(arguments));
  options.resolver = arguments.resolver;
  if (auto servers = egress::name_servers(options.resolver, ""); !servers)
    return fail(Errc::invalid, fmt::format("--resolver: {}", servers.error().message));
  options.template_name = arguments.template_name;
  options.standard_input = arguments.standard_input.empty() ? "inherit" : arguments.standard_input;
  options.state_dir = arguments.state_dir.empty() ? host::default_state_dir() : arguments.state_dir;
  options.json = arguments.json;
  options.quiet = arguments.quiet;
  options.terminal = arguments.terminal;
  options.allow_degraded = arguments.allow_degraded;
  if (options.terminal && options.json) return fail(Errc::invalid, "--tty and --json cannot be combined");
  return options;
}

}  // namespace cove::cli
