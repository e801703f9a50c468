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

// A sandbox with this door's limits.
struct WorkplaceOptions {
  std::string name;
  std::chrono::milliseconds ttl{0};  // 0: until its work is done
  sandbox::Purpose purpose = sandbox::Purpose::throwaway;
};
Task<Or<sandbox::Lease>> make_allowance(Services& services, const http::Principal& principal, Operation operation,
                                        WorkplaceOptions options);

// "K=V", what programs and commands of this door find besides what every process does.
std::vector<std::string> environment();

// Puts the files into the workspace.
Task<Result<>> stage(Services& services, std::shared_ptr<sandbox::Sandbox> sandbox, const std::vector<Input>& inputs,
                     std::function<bool()> abandoned);

struct OutputFile {
  std::string path;
  std::string id;
};
// Keeps every file of the workspace that is new or was changed by the program that ended so. What the sandbox cannot
// tell of is left out, and the log says so; fails when there is no room to keep them.
Task<Result<std::vector<OutputFile>>> collect(Services& services, std::shared_ptr<sandbox::Sandbox> sandbox,
                                              sandbox::ProcessEnd end, std::string tenant,
                                              const std::vector<Input>& inputs, std::function<bool()> abandoned);
std::string to_json(const std::vector<OutputFile>& files);

}  // namespace cove::doors::execute
