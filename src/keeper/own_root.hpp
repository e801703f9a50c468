#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "host/devices.hpp"
#include "host/host_root.hpp"
#include "jail/plan.hpp"

namespace cove::keeper {

// A detached copy of the mount of `path`, without what is mounted below it.
Result<UniqueFd> read_only_copy_of(const std::string& path);

// Moves the calling process, alone in a new mount namespace, into a root of its own that holds what sandboxes are built
// from and nothing else of the host: the host's root, the templates, /proc, the device nodes. From then on nobody in
// the keeper can open a host path, and a sandbox's mount namespace starts as a copy of this short table. Devices that
// could not be made before are made here. Returns the host's root as paths inside the keeper's root.
Result<jail::Root> enter_own_root(host::RootSource& host, host::Devices& devices, host::TemplateSource& templates);
// The root of a template, in the keeper's root. `host` is one that enter_own_root() returned: Cove's own programs are
// taken from it, so that they are those of this binary. Errc::not_found when there is no such template.
Result<jail::Root> template_root(std::uint32_t number, const jail::Root& host);

}  // namespace cove::keeper
