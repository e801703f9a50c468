#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace cove::http {

// What a part's Content-Disposition says. Text that is not UTF-8 is taken to be Latin-1.
struct PartHead {
  std::string name;
  std::optional<std::string> filename;  // "" is a file without a name; none: a field
};

// Receives form parts; its error stops parsing.
class PartSink {
 public:
  virtual ~PartSink() = default;
  virtual Result<> begin_part(PartHead head) = 0;
  virtual Result<> add_bytes(std::string_view bytes) = 0;
  virtual Result<> end_part() = 0;
};

// multipart/form-data (RFC 7578), read as it comes: needs the memory of one header block and one delimiter, whatever
// the size of the form. A pure function of the bytes, in whatever pieces they come.
class MultipartReader {
 public:
  static constexpr std::size_t kHeaderLimit = 16U << 10;  // of all the headers of one part
  static constexpr std::size_t kMaxParts = 1000;

  // `boundary` as boundary_of() gives it. `sink` is borrowed.
  MultipartReader(std::string_view boundary, PartSink& sink);

  // Errc::invalid for malformed input; the sink's errors are passed on.
  Result<> feed(std::string_view bytes);
  // To be called at the end of the input. Errc::invalid when the form is incomplete.
  [[nodiscard]] Result<> finish() const;

 private:
  enum class State { preamble, after_delimiter, headers, content, epilogue };
  Result<> step(bool& more);
  Result<> begin_part(std::string_view headers);
  Result<> pass_on(std::size_t count);

  PartSink& sink_;
  std::string delimiter_;  // CR LF, two dashes, the boundary
  State state_ = State::preamble;
  std::string pending_;
  std::size_t parts_ = 0;
};

// The boundary in a Content-Type header; nothing when it is not a form, "" when the boundary is unusable.
std::optional<std::string> boundary_of(std::string_view content_type);

// For fuzzing and tests: the parts of a Content-Disposition value.
PartHead parse_disposition(std::string_view value);

}  // namespace cove::http
