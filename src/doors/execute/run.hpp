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

// A kept file, and its path in the workspace. The file is not deleted while this lives.
struct Input {
  std::string path;  // relative, normal
  store::FileRow file;
  store::FileStore::Pin pin;
};
// 404 for the first unknown id, then 422 for the first illegal path. Of two files with the same path the later counts.
Task<Or<std::vector<Input>>> find_inputs(Services& services, std::string tenant, std::vector<FileReference> files,
                                         Entrypoint entrypoint);

// Environment variables ("K=V") of programs and commands of this door.
std::vector<std::string> environment();

// Writes the files into the workspace.
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
// Keeps workspace files that the ended program created or changed, up to the limit for one run. Files that cannot be
// read are left out and logged. Fails when there is no space to keep them.
Task<Result<Outputs>> collect(Services& services, std::shared_ptr<sandbox::Sandbox> sandbox, sandbox::ProcessEnd end,
                              std::string tenant, const std::vector<Input>& inputs, std::function<bool()> abandoned);
// Deletes kept files that were not reported to the client.
Task<> forget(Services& services, std::string tenant, std::vector<OutputFile> files);
// "files":[…], and the number of omitted ones, if any.
std::string to_json(const Outputs& outputs);

}  // namespace cove::doors::execute
