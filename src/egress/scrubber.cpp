#include "egress/scrubber.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace cove::egress {
namespace {

constexpr std::size_t kShortest = 4;  // what is shorter is in every text

void overwrite(std::string& text, const std::vector<std::string>& words) {
  for (const auto& word : words) {
    for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + word.size()))
      text.replace(at, word.size(), word.size(), '*');
  }
}

std::string percent_encoded(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
                       c == '.' || c == '_' || c == '~';
    if (plain) {
      out += c;
    } else {
      out += '%';
      out += kDigits[static_cast<unsigned char>(c) >> 4];
      out += kDigits[static_cast<unsigned char>(c) & 15];
    }
  }
  return out;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

Scrubber::Scrubber(std::vector<std::string> words) : words_(std::move(words)) {
  for (const auto& word : words_) longest_ = std::max(longest_, word.size());
}

std::string Scrubber::pass(std::string_view piece, bool last) {
  if (words_.empty()) return std::string(piece);
  kept_ += piece;
  overwrite(kept_, words_);
  // A word may have begun in the last bytes.
  const auto ready = last ? kept_.size() : kept_.size() - std::min(kept_.size(), longest_ - 1);
  auto out = kept_.substr(0, ready);
  kept_.erase(0, ready);
  return out;
}

std::string Scrubber::scrub(std::string text, const std::vector<std::string>& words) {
  overwrite(text, words);
  return text;
}

std::vector<std::string> forms_of_secret(const std::string& value) {
  std::vector<std::string> plain{value};
  const auto blank = value.find(' ');
  if (blank != std::string::npos) plain.push_back(value.substr(blank + 1));
  std::vector<std::string> forms;
  const auto add = [&forms](std::string form) {
    if (form.size() >= kShortest && std::ranges::find(forms, form) == forms.end()) forms.push_back(std::move(form));
  };
  for (const auto& text : plain) {
    add(text);
    add(base64(text));
    add(percent_encoded(text));
    add(escaped(text));
  }
  // What `basic` carries is a name and a password in base64.
  if (blank != std::string::npos) {
    const auto pair = from_base64(value.substr(blank + 1), Padding::optional);
    if (pair && pair->find(':') != std::string::npos) {
      add(*pair);
      add(pair->substr(pair->find(':') + 1));
    }
  }
  // The longest first: the whole before its parts.
  std::ranges::sort(forms, [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  return forms;
}

}  // namespace cove::egress
