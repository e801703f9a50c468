#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace cove::sandbox {

// What a sandbox reports about its files. It is not trusted: code in the sandbox can fake it.

struct FileFacts {
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  std::uint64_t inode = 0;
};
std::string etag_of(const FileFacts& facts);

struct FileEntry {
  std::string path;  // absolute
  std::string type;  // file, directory, symlink, other
  std::uint64_t size = 0;
  std::string mode;       // 0644
  std::string modified;   // 2026-03-04T10:15:00.123Z
  std::string target;     // of a symlink
  bool not_utf8 = false;  // the path is not its real one, which no JSON can have: bad bytes are U+FFFD
};

struct Listing {
  std::vector<FileEntry> entries;  // sorted by path
  bool truncated = false;
  std::uint64_t left_out = 0;  // of one that is truncated: so many more there are
};

struct FileChange {
  std::string type;  // created, modified, renamed, …
  std::string path;  // absolute
  std::string to;    // the new path after a rename
};

struct UploadedFiles {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
};

// A path relative to /workspace, and the content to write there.
struct NewFile {
  std::string path;
  std::string content;
};
// Path to a mark that shows whether a file is unchanged.
using FileMarks = std::map<std::string, std::string>;

struct ChangedFile {
  std::string path;  // relative to /workspace; valid UTF-8
  std::uint64_t size = 0;
  bool created = false;
  std::string mark;
};
struct ChangedFiles {
  std::vector<ChangedFile> files;
  bool more = false;  // there are more
};
struct ChangesWanted {
  std::int64_t since_ns = 0;  // of files_clock()
  FileMarks known = {};       // not reported while unchanged
  std::string remove = {};    // a file to remove first; "": none
};

// The clock of file times.
std::int64_t files_clock();

// "/workspace/a" of "a", "/workspace" of "".
std::string workspace_path(std::string_view path);
// "a" of "/workspace/a", "" of "/workspace". Errc::io for a path outside.
Result<std::string> workspace_relative(std::string_view path);

}  // namespace cove::sandbox
