#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "doors/execute/answers.hpp"
#include "sandbox/lease.hpp"
#include "sandbox/sandbox.hpp"
#include "store/file_store.hpp"

namespace cove::doors::execute {

// A kept file, and where in the workspace it goes. It stays while this lives.
struct Input {
  std::string path;  // relative, normal
  store::FileRow file;
  store::FileStore::Pin pin;
};
// 404 for the first id that is unknown, then 422 for the first path that is illegal. Of two with one path the later
// counts.
Task<Or<std::vector<Input>>> find_inputs(Services& services, std::string tenant, std::vector<FileReference> files,
                                         Entrypoint entrypoint);

// "K=V", what programs and commands of this door find besides what every process does.
std::vector<std::string> environment();

// Puts the files into the workspace.
Task<Result<>> stage(Services& services, std::shared_ptr<sandbox::Sandbox> sandbox, const std::vector<Input>& inputs,
                     std::function<bool()> abandoned);

struct OutputFile {
  std::string path;
  std::string id;
};
struct Outputs {
  std::vector<OutputFile> files;
  std::uint64_t omitted = 0;  // that are not kept: too many for one run, or the sandbox could not read them
};
// Keeps the files of the workspace that are new or were changed by the program that ended so, as many as are kept of
// one run. What the sandbox cannot tell of is left out, and the log says so; fails when there is no room to keep them.
Task<Result<Outputs>> collect(Services& services, std::shared_ptr<sandbox::Sandbox> sandbox, sandbox::ProcessEnd end,
                              std::string tenant, const std::vector<Input>& inputs, std::function<bool()> abandoned);
// Files that nobody was told of go.
Task<> forget(Services& services, std::string tenant, std::vector<OutputFile> files);
// "files":[…], and how many are missing, if any.
std::string to_json(const Outputs& outputs);

}  // namespace cove::doors::execute
