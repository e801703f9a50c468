#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "store/store.hpp"

namespace cove::store {

// A directory for as long as it lives.
class TestDirectory {
 public:
  TestDirectory() { EXPECT_NE(::mkdtemp(path_), nullptr); }
  ~TestDirectory() {
    std::error_code ec;
    std::filesystem::remove_all(path_, ec);
  }
  TestDirectory(const TestDirectory&) = delete;
  TestDirectory& operator=(const TestDirectory&) = delete;
  [[nodiscard]] std::string path() const { return path_; }
  [[nodiscard]] std::string file() const { return path() + "/" + kDatabaseFile; }
  [[nodiscard]] std::unique_ptr<Store> open(OnBroken on_broken = OnBroken::move_aside) const {
    auto store = Store::open(path_, on_broken);
    EXPECT_TRUE(store) << store.error().message;
    return store ? std::move(*store) : nullptr;
  }

 private:
  char path_[32] = "/tmp/cove-test-store-XXXXXX";
};

}  // namespace cove::store
