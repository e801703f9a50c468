#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <vector>

#include "profiles/seccomp_profile.hpp"

namespace cove::profiles {

// A piece of program. Every way through it ends in a return, so pieces can be put anywhere and one behind the other.
using Code = std::vector<sock_filter>;

// The BPF program that answers as the profile says. Throws Refused for a profile without a default or without an answer
// for other architectures, and for one that is too long for the kernel.
Code compile(const Profile& profile);

// FNV-1a over the instructions: tells two programs apart, does not vouch for either.
std::uint64_t hash(const Code& program);

}  // namespace cove::profiles
