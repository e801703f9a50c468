#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cove::egress {

// Takes words out of bytes that come in pieces: each is overwritten with as many stars as it has characters there,
// wherever the pieces end, and whichever of its characters are escaped: as URLs, JSON, JavaScript or HTML write them.
class Scrubber {
 public:
  explicit Scrubber(std::vector<std::string> words);

  // What may pass of everything so far. What is the beginning of a word is kept back until more comes, or `last`.
  std::string pass(std::string_view piece, bool last);
  // A whole text.
  static std::string scrub(std::string_view text, const std::vector<std::string>& words);

 private:
  std::vector<std::string> words_;
  std::array<bool, 256> begins_{};  // whether a word can begin with this byte
  std::string kept_;
};

// What an answer may repeat of a secret that a header carried: as it is, without the scheme in front of it ("Bearer "),
// what `Basic` means, and all of these in base64 (of either alphabet, wherever it begins) and in hexadecimal digits.
std::vector<std::string> forms_of_secret(const std::string& value);

}  // namespace cove::egress
