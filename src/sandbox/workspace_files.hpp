#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "async/task.hpp"
#include "base/result.hpp"
#include "sandbox/sandbox.hpp"

namespace cove::sandbox {

struct WorkspaceFile {
  std::string path;  // relative to /workspace
  std::string content;
};
// Path to a mark by which it is seen that a file is as it was.
using FileMarks = std::map<std::string, std::string>;
// Writes all of them by one helper. Directories on the way are made, no link is followed.
async::Task<Result<FileMarks>> put_files(std::shared_ptr<Sandbox> sandbox, std::vector<WorkspaceFile> files,
                                         std::function<bool()> abandoned);

struct ChangedFile {
  std::string path;  // relative to /workspace; valid UTF-8
  std::uint64_t size = 0;
  bool created = false;
  std::string mark;
};
struct WorkspaceChanges {
  std::vector<ChangedFile> files;
  bool more = false;  // there are others
};
struct ChangesWanted {
  std::int64_t since_ns = 0;  // of files_clock()
  FileMarks known = {};       // files that are not meant while they are as they were
  std::string remove = {};    // a file that is to be gone first; "": none
};
// What was written below /workspace since then, without what is hidden: the sandbox's word.
async::Task<Result<WorkspaceChanges>> changes_of(std::shared_ptr<Sandbox> sandbox, ChangesWanted wanted,
                                                 std::function<bool()> abandoned);

// The clock that files' times are of.
std::int64_t files_clock();

}  // namespace cove::sandbox
