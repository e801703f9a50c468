#include "egress/scrubber.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/text.hpp"

namespace cove::egress {
namespace {

constexpr std::size_t kShortest = 4;          // what is shorter is in every text
constexpr std::size_t kShortestCoded = 6;     // the same of digits
constexpr std::size_t kLeadingZeros = 4;      // of a number in HTML
constexpr std::string_view kMarks = "%\\&+";  // with which escapes begin

enum class Fit : std::uint8_t { no, yes, more };

// What begins at a place of a text, for one character.
struct Step {
  Fit fit = Fit::no;
  std::size_t size = 0;
};

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

Step literally(std::string_view text, std::string_view wanted) {
  const auto size = std::min(text.size(), wanted.size());
  for (std::size_t i = 0; i < size; ++i) {
    if (lower(text[i]) != lower(wanted[i])) return {};
  }
  return {.fit = size == wanted.size() ? Fit::yes : Fit::more, .size = size};
}

// "&#", perhaps zeros, the number, ";".
Step as_number(std::string_view text, std::string_view mark, std::string_view digits) {
  auto begin = literally(text, mark);
  for (std::size_t zeros = 0; begin.fit == Fit::yes && zeros <= kLeadingZeros; ++zeros) {
    const auto end = literally(text.substr(begin.size), digits);
    if (end.fit != Fit::no) return {.fit = end.fit, .size = begin.size + end.size};
    if (text[begin.size] != '0') return {};
    ++begin.size;
  }
  return begin.fit == Fit::more ? begin : Step{};
}

// Places in a text to which the characters so far have come, on every way of reading it.
struct Places {
  std::array<std::size_t, 8> at{};
  std::size_t count = 0;

  void add(std::size_t place) {
    const auto end = at.begin() + static_cast<std::ptrdiff_t>(count);
    if (count < at.size() && std::find(at.begin(), end, place) == end) at.at(count++) = place;
  }
};

constexpr std::string_view name_in_html(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&apos;";
    default:
      return "";
  }
}

// Every way in which `c` may be written at `from`. True: one of them may go on behind the end of the text.
bool read_character(std::string_view text, std::size_t from, char c, Places& next) {
  const auto rest = text.substr(from);
  if (rest.empty()) return true;
  bool more = false;
  const auto take = [&](Step step) {
    if (step.fit == Fit::yes) next.add(from + step.size);
    more = more || step.fit == Fit::more;
  };
  if (rest.front() == c) next.add(from + 1);
  if (c == ' ' && rest.front() == '+') next.add(from + 1);
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto code = static_cast<unsigned char>(c);
  const std::array<char, 2> hex{kDigits[code >> 4], kDigits[code & 15]};
  const std::string_view digits(hex.data(), hex.size());
  switch (rest.front()) {
    case '%':
      take(literally(rest, fmt::format("%{}", digits)));
      break;
    case '\\':
      if (rest.size() == 1) return true;
      if (rest[1] == c) next.add(from + 2);
      take(literally(rest, fmt::format("\\u00{}", digits)));
      take(literally(rest, fmt::format("\\x{}", digits)));
      break;
    case '&':
      take(as_number(rest, "&#", fmt::format("{};", code)));
      take(as_number(rest, "&#x", fmt::format("{};", digits)));
      if (const auto name = name_in_html(c); !name.empty()) take(literally(rest, name));
      break;
    default:
      break;
  }
  return more;
}

Step find_word(std::string_view text, std::size_t from, std::string_view word) {
  Places places;
  places.add(from);
  for (const char c : word) {
    Places next;
    bool more = false;
    for (const auto place : std::span(places.at).first(places.count)) {
      const bool behind = read_character(text, place, c, next);
      more = more || behind;
    }
    if (more) return {.fit = Fit::more};
    if (next.count == 0) return {};
    places = next;
  }
  const auto reached = std::span(places.at).first(places.count);
  return {.fit = Fit::yes, .size = *std::ranges::max_element(reached) - from};
}

// The characters of a base64 text that say nothing of what stands before and behind `text` in it.
std::string inside_base64(std::string_view text, std::size_t before) {
  const auto whole = base64(std::string(before, '.') + std::string(text));
  const auto first = (before * 8 + 5) / 6;
  const auto end = (before + text.size()) * 8 / 6;
  return end > first ? whole.substr(first, end - first) : std::string();
}

std::string in_digits(std::string_view text) {
  std::string out;
  for (const char c : text) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

}  // namespace

Scrubber::Scrubber(std::vector<std::string> words) : words_(std::move(words)) {
  for (const auto& word : words_) begins_.at(static_cast<unsigned char>(word.front())) = true;
  for (const char c : kMarks) begins_.at(static_cast<unsigned char>(c)) = !words_.empty();
}

std::string Scrubber::pass(std::string_view piece, bool last) {
  if (words_.empty()) return std::string(piece);
  kept_ += piece;
  const std::string_view text = kept_;
  std::string out;
  out.reserve(text.size());
  std::size_t at = 0;
  while (at < text.size()) {
    if (!begins_.at(static_cast<unsigned char>(text[at]))) {
      out += text[at++];
      continue;
    }
    std::size_t size = 0;
    bool more = false;
    for (const auto& word : words_) {
      const auto found = find_word(text, at, word);
      if (found.fit == Fit::yes) size = std::max(size, found.size);
      more = more || found.fit == Fit::more;
    }
    if (more && !last) break;
    if (size == 0) {
      out += text[at++];
    } else {
      out.append(size, '*');
      at += size;
    }
  }
  kept_.erase(0, at);
  return out;
}

std::string Scrubber::scrub(std::string_view text, const std::vector<std::string>& words) {
  return Scrubber(words).pass(text, true);
}

std::vector<std::string> forms_of_secret(const std::string& value) {
  std::vector<std::string> plain{value};
  const auto blank = value.find(' ');
  if (blank != std::string::npos) {
    plain.push_back(value.substr(blank + 1));
    // What `Basic` carries is a name and a password in base64.
    const auto pair = from_base64(plain.back(), Padding::optional);
    if (pair && pair->find(':') != std::string::npos) {
      plain.push_back(*pair);
      plain.push_back(pair->substr(pair->find(':') + 1));
    }
  }
  std::vector<std::string> forms;
  const auto add = [&forms](std::string form, std::size_t shortest) {
    if (form.size() >= shortest && std::ranges::find(forms, form) == forms.end()) forms.push_back(std::move(form));
  };
  for (const auto& text : plain) add(text, kShortest);
  for (const auto& text : plain) {
    if (text.size() < kShortest) continue;
    for (std::size_t before = 0; before < 3; ++before) {
      auto form = inside_base64(text, before);
      add(form, kShortestCoded);
      std::ranges::replace(form, '+', '-');
      std::ranges::replace(form, '/', '_');
      add(std::move(form), kShortestCoded);
    }
    auto digits = in_digits(text);
    add(digits, kShortestCoded);
    std::ranges::transform(digits, digits.begin(),
                           [](char c) { return c >= 'a' ? static_cast<char>(c - 'a' + 'A') : c; });
    add(std::move(digits), kShortestCoded);
  }
  return forms;
}

}  // namespace cove::egress
