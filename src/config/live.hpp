#pragma once

#include <memory>
#include <utility>

#include "config/config.hpp"

namespace cove::config {

// The configuration as of now. A reload replaces it: work that needs one answer throughout holds the pointer.
class Live {
 public:
  explicit Live(Config config) { replace(std::move(config)); }

  [[nodiscard]] std::shared_ptr<const Config> operator()() const { return current_; }
  [[nodiscard]] const Config* operator->() const { return current_.get(); }
  void replace(Config config) { current_ = std::make_shared<const Config>(std::move(config)); }

 private:
  std::shared_ptr<const Config> current_;
};

}  // namespace cove::config
