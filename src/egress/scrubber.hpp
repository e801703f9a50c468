#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cove::egress {

// Takes words out of bytes that come in pieces: each is overwritten with as many stars, wherever the pieces end.
class Scrubber {
 public:
  explicit Scrubber(std::vector<std::string> words);

  // What may pass of everything so far. What could be the beginning of a word is kept back until `last`.
  std::string pass(std::string_view piece, bool last);
  // A whole text.
  static std::string scrub(std::string text, const std::vector<std::string>& words);

 private:
  std::vector<std::string> words_;
  std::size_t longest_ = 0;
  std::string kept_;
};

// The forms in which an answer may repeat a secret that a header carried: as it is, without the scheme in front of it
// ("Bearer "), in base64, percent-encoded, and as JSON writes it.
std::vector<std::string> forms_of_secret(const std::string& value);

}  // namespace cove::egress
