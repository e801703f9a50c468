// cove-files: does the file API's work inside the sandbox, as the sandbox's own user and under all its locks.
// Content goes over stdin and stdout; a failure is exit status 1 and one line of JSON on stderr (README.md).
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/ranges.h>

#include <charconv>
#include <span>
#include <string>
#include <string_view>

#include "base/io.hpp"
#include "files/changed.hpp"
#include "files/content.hpp"
#include "files/json.hpp"
#include "files/location.hpp"
#include "files/names.hpp"
#include "files/pack.hpp"
#include "files/snapshot.hpp"
#include "files/stage.hpp"
#include "files/stop.hpp"
#include "files/tree.hpp"
#include "files/unpack.hpp"
#include "files/watch.hpp"
#include "wire/file_commands.hpp"

namespace cove::files {
namespace {

using Arguments = std::span<char*>;

Result<std::uint64_t> number(std::string_view text, int base = 10) {
  std::uint64_t value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (ec != std::errc() || end != text.data() + text.size())
    return fail(Errc::invalid, fmt::format("{} is not a number", shown(text)));
  return value;
}

Result<> say(const std::string& json) {
  return write_all(STDOUT_FILENO, json + "\n");
}

Result<> say(const Result<Entry>& entry) {
  if (!entry) return tl::unexpected<Error>(entry.error());
  return say(to_json(*entry));
}

// An optional last word, as in "rename FROM TO overwrite".
Result<bool> flag(Arguments arguments, std::size_t at, std::string_view word) {
  if (arguments.size() <= at) return false;
  if (arguments.size() > at + 1 || arguments[at] != word)
    return fail(Errc::invalid, fmt::format("expected nothing or '{}'", word));
  return true;
}

Result<std::uint64_t> option_value(Arguments arguments, std::size_t at) {
  if (at + 1 >= arguments.size()) return fail(Errc::invalid, fmt::format("{} wants a number", arguments[at]));
  return number(arguments[at + 1]);
}

Result<> upload(const std::string& path, Arguments options) {
  UnpackLimits limits;
  for (std::size_t i = 0; i < options.size(); i += 2) {
    const std::string_view name = options[i];
    COVE_TRY(const auto value, option_value(options, i));
    if (name == wire::kMaxBytesOption)
      limits.max_bytes = value;
    else if (name == wire::kMaxMembersOption)
      limits.max_members = value;
    else if (name == wire::kMaxDepthOption)
      limits.max_depth = value;
    else if (name == wire::kMaxRatioOption && value > 0)
      limits.ratio.max_ratio = value;
    else if (name == wire::kAbsoluteNamesOption)
      limits.absolute_names = value != 0;
    else
      return fail(Errc::invalid, fmt::format("upload: {} is not understood", shown(name)));
  }
  COVE_TRY(const auto unpacked, unpack(STDIN_FILENO, path, limits));
  return say(fmt::format(R"({{"files":{},"bytes":{}}})", unpacked.files, unpacked.bytes));
}

Result<> download(const std::string& path, Arguments options) {
  PackLimits limits;
  for (std::size_t i = 0; i < options.size(); i += 2) {
    const std::string_view name = options[i];
    COVE_TRY(const auto value, option_value(options, i));
    if (name == wire::kMaxBytesOption)
      limits.max_bytes = value;
    else if (name == wire::kOnlyFilesOption)
      limits.only_files = value != 0;
    else
      return fail(Errc::invalid, "download takes --max-bytes and --only-files");
  }
  return pack(path, STDOUT_FILENO, limits);
}

Result<> stage_files(const std::string& path, Arguments rest) {
  COVE_TRY(const bool now, flag(rest, 0, wire::kNowWord));
  COVE_TRY(const auto staged, stage(STDIN_FILENO, path, now ? StagedTime::now : StagedTime::zero));
  return say(fmt::format(R"({{"files":{},"bytes":{},"marks":["{}"]}})", staged.files, staged.bytes,
                         fmt::join(staged.marks, "\",\"")));
}

Result<> take_snapshot(const std::string& path, Arguments options) {
  SnapshotLimits limits;
  for (; options.size() >= 2; options = options.subspan(2)) {
    const std::string_view name = options[0];
    if (name != wire::kMaxBytesOption && name != wire::kMaxFilesOption) break;
    auto& limit = name == wire::kMaxBytesOption ? limits.max_bytes : limits.max_files;
    COVE_TRY(limit, number(options[1]));
  }
  if (!options.empty()) return fail(Errc::invalid, "snapshot takes --max-bytes and --max-files");
  COVE_TRY(const auto known, read_known(STDIN_FILENO));
  return snapshot(path, known, STDOUT_FILENO, limits);
}

Result<> read(const std::string& path, Arguments rest) {
  ReadRange range;
  if (!rest.empty()) {
    if (rest.size() != 2) return fail(Errc::invalid, "read takes OFFSET and LENGTH together");
    COVE_TRY(range.offset, number(rest[0]));
    COVE_TRY(range.length, number(rest[1]));
  }
  return read_content(path, range, STDOUT_FILENO);
}

Result<> write(const std::string& path, Arguments rest) {
  if (rest.empty()) return fail(Errc::invalid, "write wants a mode");
  COVE_TRY(const auto mode, number(rest[0], 8));
  if (mode > 0777) return fail(Errc::invalid, fmt::format("{} is not a mode up to 0777", shown(rest[0])));
  COVE_TRY(const bool append, flag(rest, 1, wire::kAppendWord));
  const auto bits = static_cast<std::uint32_t>(mode);
  return say(append ? append_content(path, bits, STDIN_FILENO) : write_content(path, bits, STDIN_FILENO));
}

Result<> list(const std::string& path, Arguments rest) {
  if (rest.size() != 2) return fail(Errc::invalid, "list wants DEPTH and MAXENTRIES");
  COVE_TRY(const auto depth, number(rest[0]));
  COVE_TRY(const auto max_entries, number(rest[1]));
  COVE_TRY(const auto listing, list_tree(path, depth, max_entries));
  return say(to_json(listing));
}

Result<> changed(const std::string& path, Arguments rest) {
  if (rest.size() < 2) return fail(Errc::invalid, "changed wants SINCE and MOST");
  ChangesWanted wanted;
  COVE_TRY(const auto since, number(rest[0]));
  COVE_TRY(wanted.most, number(rest[1]));
  wanted.since_ns = static_cast<std::int64_t>(since);
  rest = rest.subspan(2);
  while (!rest.empty()) {
    const std::string_view name = rest[0];
    if (name == wire::kKnownOption && rest.size() > 2) {
      wanted.known.emplace(rest[2], rest[1]);
      rest = rest.subspan(3);
    } else if (name == wire::kRemoveOption && rest.size() > 1) {
      static_cast<void>(remove_path(path + "/" + rest[1], Recursive::no).has_value());  // it may be gone already
      rest = rest.subspan(2);
    } else {
      return fail(Errc::invalid, fmt::format("changed: {} is not understood", shown(name)));
    }
  }
  COVE_TRY(const auto changes, changes_below(path, wanted));
  return say(to_json(changes));
}

Result<> rename(const std::string& path, Arguments rest) {
  if (rest.empty()) return fail(Errc::invalid, "rename wants a second path");
  COVE_TRY(const auto to, absolute_path(rest[0]));
  COVE_TRY(const bool overwrite, flag(rest, 1, wire::kOverwriteWord));
  return say(rename_path(path, to, overwrite ? Overwrite::yes : Overwrite::no));
}

Result<> link(const std::string& path, Arguments rest) {
  if (rest.size() != 1) return fail(Errc::invalid, "link wants PATH and TARGET");
  return say(make_link(path, rest[0]));
}

Result<> remove(const std::string& path, Arguments rest) {
  COVE_TRY(const bool recursive, flag(rest, 0, wire::kRecursiveWord));
  return remove_path(path, recursive ? Recursive::yes : Recursive::no);
}

Result<> watch_changes(const std::string& path, Arguments rest) {
  COVE_TRY(const bool recursive, flag(rest, 0, wire::kRecursiveWord));
  return watch(path, recursive ? Recursive::yes : Recursive::no, STDIN_FILENO, STDOUT_FILENO);
}

Result<> run(wire::FileVerb verb, const std::string& path, Arguments rest) {
  using wire::FileVerb;
  switch (verb) {
    case FileVerb::upload:
      return upload(path, rest);
    case FileVerb::download:
      return download(path, rest);
    case FileVerb::stage:
      return stage_files(path, rest);
    case FileVerb::snapshot:
      return take_snapshot(path, rest);
    case FileVerb::read:
      return read(path, rest);
    case FileVerb::write:
      return write(path, rest);
    case FileVerb::list:
      return list(path, rest);
    case FileVerb::changed:
      return changed(path, rest);
    case FileVerb::rename:
      return rename(path, rest);
    case FileVerb::remove:
      return remove(path, rest);
    case FileVerb::watch:
      return watch_changes(path, rest);
    case FileVerb::link:
      return link(path, rest);
    case FileVerb::stat:
    case FileVerb::mkdir:
      break;
  }
  if (!rest.empty()) return fail(Errc::invalid, fmt::format("{} takes one path", name_of(verb)));
  return say(verb == FileVerb::stat ? stat_path(path) : make_directory(path));
}

Result<> run(Arguments arguments) {
  if (arguments.size() > 2 && arguments[1] == wire::kWithinOption) {
    stay_within(arguments[2]);
    arguments = arguments.subspan(2);
  }
  if (arguments.size() < 3) return fail(Errc::invalid, "usage: files [--within ROOT] COMMAND PATH [ARGUMENTS]");
  COVE_TRY(const auto path, absolute_path(arguments[2]));
  const auto verb = wire::file_verb(arguments[1]);
  if (!verb) return fail(Errc::invalid, fmt::format("unknown command {}", shown(arguments[1])));
  return run(*verb, path, arguments.subspan(3));
}

void on_stop(int /*signal*/) {
  stop_requested = 1;
}

}  // namespace
}  // namespace cove::files

int main(int argc, char** argv) {
  // The sandboxed program has the same uid; it must not look into this one or steer it.
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  ::signal(SIGXFSZ, SIG_IGN);  // too large is an error to tell, not a death
  ::signal(SIGPIPE, SIG_IGN);  // the same for a reader that has left
  struct sigaction stop{};
  stop.sa_handler = &cove::files::on_stop;  // without SA_RESTART: a read that waits returns
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::sigaction(signal, &stop, nullptr);
  ::umask(0);  // modes are set as asked; what is made on the way has its own

  const auto done = cove::files::run({argv, static_cast<std::size_t>(argc)});
  if (done) return 0;
  static_cast<void>(cove::write_all(STDERR_FILENO, cove::files::error_json(done.error()) + "\n").has_value());
  return 1;
}
