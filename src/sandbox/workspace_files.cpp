#include "sandbox/workspace_files.hpp"

#include <time.h>

#include <boost/json.hpp>

#include "base/text.hpp"
#include "sandbox/helper.hpp"

namespace cove::sandbox {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostChanges = 100;

tl::unexpected<Error> broken() {
  return fail(Errc::io, "the sandbox's file helper broke the protocol");
}

Result<ChangedFile> parse(const json::value& said) {
  const auto* object = said.if_object();
  const auto* path = object != nullptr ? object->if_contains("path") : nullptr;
  const auto* size = object != nullptr ? object->if_contains("size") : nullptr;
  const auto* mark = object != nullptr ? object->if_contains("mark") : nullptr;
  const auto* created = object != nullptr ? object->if_contains("created") : nullptr;
  if (path == nullptr || !path->is_string() || size == nullptr || !size->is_int64() || size->as_int64() < 0 ||
      created == nullptr || !created->is_bool() || mark == nullptr || !mark->is_string())
    return broken();
  return ChangedFile{.path = std::string(path->as_string()),
                     .size = static_cast<std::uint64_t>(size->as_int64()),
                     .created = created->as_bool(),
                     .mark = std::string(mark->as_string())};
}

}  // namespace

async::Task<Result<FileMarks>> put_files(std::shared_ptr<Sandbox> sandbox, std::vector<WorkspaceFile> files,
                                         std::function<bool()> abandoned) {
  std::vector<std::string> arguments{"stage", "/workspace", "now"};
  auto helper = co_await Helper::start(std::move(sandbox), std::move(arguments), std::move(abandoned));
  if (!helper) co_return tl::unexpected<Error>(helper.error());
  std::string stream;
  for (auto& file : files) {
    stream += fmt::format("{} {}\n{}", file.content.size(), file.path.size(), file.path);
    stream += file.content;
  }
  stream += "end\n";
  if (co_await (*helper)->write(std::move(stream))) (*helper)->end_input();
  const auto done = co_await (*helper)->finish();
  if (!done) co_return tl::unexpected<Error>(done.error());
  boost::system::error_code failed;
  const auto said = json::parse(*done, failed);
  const auto* object = failed ? nullptr : said.if_object();
  const auto* marks = object != nullptr ? object->if_contains("marks") : nullptr;
  if (marks == nullptr || !marks->is_array() || marks->as_array().size() != files.size()) co_return broken();
  FileMarks written;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto* mark = marks->as_array()[i].if_string();
    if (mark == nullptr) co_return broken();
    written[files[i].path] = std::string(*mark);
  }
  co_return written;
}

async::Task<Result<WorkspaceChanges>> changes_of(std::shared_ptr<Sandbox> sandbox, ChangesWanted wanted,
                                                 std::function<bool()> abandoned) {
  std::vector<std::string> arguments{"changed", "/workspace", std::to_string(wanted.since_ns),
                                     std::to_string(kMostChanges)};
  if (!wanted.remove.empty()) arguments.insert(arguments.end(), {"--remove", wanted.remove});
  for (const auto& [path, mark] : wanted.known) arguments.insert(arguments.end(), {"--known", mark, path});
  auto helper = co_await Helper::start(std::move(sandbox), std::move(arguments), std::move(abandoned));
  if (!helper) co_return tl::unexpected<Error>(helper.error());
  const auto answer = co_await (*helper)->finish();
  if (!answer) co_return tl::unexpected<Error>(answer.error());
  boost::system::error_code failed;
  const auto said = json::parse(replace_invalid_utf8(*answer), failed);
  const auto* object = failed ? nullptr : said.if_object();
  const auto* files = object != nullptr ? object->if_contains("files") : nullptr;
  const auto* more = object != nullptr ? object->if_contains("more") : nullptr;
  if (files == nullptr || !files->is_array() || more == nullptr || !more->is_bool()) co_return broken();
  WorkspaceChanges changes{.more = more->as_bool()};
  for (const auto& entry : files->as_array()) {
    auto file = parse(entry);
    if (!file || changes.files.size() == kMostChanges) co_return broken();
    changes.files.push_back(std::move(*file));
  }
  co_return changes;
}

std::int64_t files_clock() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

}  // namespace cove::sandbox
