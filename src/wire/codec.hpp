#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace cove::wire {

// Little pieces of a payload, in the machine's own byte order: both ends are always the same host.
class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  template <typename T>
    requires std::is_integral_v<T> || std::is_enum_v<T>
  void number(T value) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    out_.append(bytes, sizeof(T));
  }
  void text(std::string_view value) {
    number(static_cast<std::uint32_t>(value.size()));
    out_.append(value);
  }
  void texts(const std::vector<std::string>& values) {
    number(static_cast<std::uint32_t>(values.size()));
    for (const auto& value : values) text(value);
  }

 private:
  std::string& out_;
};

// Reads what Writer wrote. The first thing that does not fit makes everything after it empty and `good()` false, so
// that a decoder asks once, at the end.
class Reader {
 public:
  explicit Reader(std::string_view in) : in_(in) {}

  template <typename T>
    requires std::is_integral_v<T> || std::is_enum_v<T>
  T number() {
    T value{};
    if (in_.size() < sizeof(T)) {
      good_ = false;
      in_ = {};
      return value;
    }
    std::memcpy(&value, in_.data(), sizeof(T));
    in_.remove_prefix(sizeof(T));
    return value;
  }
  std::string_view text() {
    const auto size = number<std::uint32_t>();
    if (size > in_.size()) {
      good_ = false;
      in_ = {};
      return {};
    }
    const auto value = in_.substr(0, size);
    in_.remove_prefix(size);
    return value;
  }
  std::vector<std::string> texts() {
    const auto count = number<std::uint32_t>();
    std::vector<std::string> values;
    // Each text takes at least its length, so a lying count ends with the payload and reserves nothing.
    for (std::uint32_t i = 0; i < count && good_; ++i) values.emplace_back(text());
    return values;
  }
  std::string_view rest() { return std::exchange(in_, {}); }
  // Everything fitted and nothing is left over.
  [[nodiscard]] bool complete() const { return good_ && in_.empty(); }

 private:
  std::string_view in_;
  bool good_ = true;
};

}  // namespace cove::wire
