#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "http/request.hpp"

namespace cove::http {

// From bytes to a Request: everything here is a pure function of what the client sent, so that it can be fuzzed.

struct HeadLimits {
  std::size_t head = 32 << 10;
  std::size_t target = 8 << 10;
  std::size_t lines = 100;
};

// Why a request is not served.
struct Refusal {
  unsigned status = 400;
  std::string code = "invalid";
  std::string sentence;
};

// Finds the end of a head in a growing buffer, and refuses as early as it can: control bytes, bare CR or LF, folded
// lines, HTTP/0.9, and whatever is over a limit.
class HeadScanner {
 public:
  explicit HeadScanner(HeadLimits limits) : limits_(limits) {}
  // `buffer` begins with the head and only ever grows between calls. The size of the head once it is complete, nothing
  // while it is not.
  std::variant<std::optional<std::size_t>, Refusal> scan(std::string_view buffer);

 private:
  HeadLimits limits_;
  std::size_t at_ = 0;
  std::size_t line_begin_ = 0;
  std::size_t line_ = 0;
};

struct Head {
  Request request;          // without id, peer, principal and params
  std::string key;          // the path's first segment if it is a key, taken off the target
  std::string host;         // Host, lower case
  std::string target_host;  // of an absolute-form target, lower case; else empty
  bool chunked = false;
  std::uint64_t content_length = 0;
  bool keep_alive = false;
  bool expect_continue = false;
};

// `head` is what HeadScanner found.
std::variant<Head, Refusal> parse_head(std::string_view head, HeadLimits limits);

// The client's X-Request-Id if it is harmless, else a random one.
std::string request_id(const Request& request);
std::string random_request_id();

// Takes the framing off a request body. Chunk extensions are refused: nobody needs them, and parsers that disagree
// about them allow request smuggling. Trailers are read and dropped.
class BodyDecoder {
 public:
  BodyDecoder() = default;  // no body
  static BodyDecoder of_length(std::uint64_t length);
  static BodyDecoder of_chunks();

  struct Step {
    std::size_t used = 0;      // taken from the input
    std::size_t produced = 0;  // written to the output
  };
  // Nothing: malformed. An input that is used up before the body is done means "more". Progress may be zero only then.
  std::optional<Step> decode(std::string_view input, char* output, std::size_t size);
  [[nodiscard]] bool done() const { return state_ == State::done; }
  // With a length: bytes that may be read straight into the caller's memory.
  [[nodiscard]] std::uint64_t raw_left() const { return state_ == State::raw ? left_ : 0; }
  // To be called after `count` bytes of raw_left() were read without this decoder.
  void skip(std::uint64_t count);

 private:
  enum class State {
    done,
    raw,
    size_begin,
    size,
    size_lf,
    data,
    data_cr,
    data_lf,
    trailer_begin,
    trailer,
    trailer_lf,
    last_lf
  };
  std::optional<State> next(char c);
  State state_ = State::done;
  std::uint64_t left_ = 0;
  std::size_t digits_ = 0;
  std::size_t trailer_bytes_ = 0;
};

}  // namespace cove::http
