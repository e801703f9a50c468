#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace cove::builder {

struct Contents {
  std::uint64_t size_bytes = 0;
  std::vector<std::string> languages;
  bool kernels = false;                          // it has what kernels need
  std::map<std::string, std::string> installed;  // package to version
};

// Turns `base`/image, as packages left it, into the two parts of a root: `base`/lower and `base`/usr. Nothing else of
// the image stays.
Result<Contents> assemble(const std::string& base, const std::vector<std::string>& preload);

}  // namespace cove::builder
