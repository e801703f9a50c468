#pragma once

#include <memory>
#include <string>

#include "async/task.hpp"
#include "base/result.hpp"
#include "sandbox/sandbox.hpp"
#include "tools/codegen/package.hpp"

namespace cove::tools {

// Puts the files of a package into this directory, which is relative to the sandbox's own, in place of what is there.
async::Task<Result<>> write_package(std::shared_ptr<sandbox::Sandbox> sandbox, std::string directory,
                                    codegen::Package package);

}  // namespace cove::tools
