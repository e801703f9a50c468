#include "guest/channel.hpp"

#include <algorithm>
#include <utility>

#include "wire/init_messages.hpp"

namespace cove::guest {
namespace {

constexpr char kFirst = 1;
constexpr char kLast = 2;
constexpr std::size_t kHead = 1024;

}  // namespace

std::vector<std::string> records_of(std::string_view message) {
  std::vector<std::string> records;
  char flags = kFirst;
  do {
    const auto piece = message.substr(0, std::min(message.size(), wire::kMaxRecord - 1));
    message.remove_prefix(piece.size());
    if (message.empty()) flags |= kLast;
    auto& record = records.emplace_back(1, flags);
    record.append(piece);
    flags = 0;
  } while (!message.empty());
  return records;
}

Result<std::optional<std::string>> MessageReader::add(std::string_view record) {
  if (record.empty() || (record.front() & ~(kFirst | kLast)) != 0) return fail(Errc::invalid, "a record has no flags");
  const char flags = record.front();
  record.remove_prefix(1);
  if ((flags & kFirst) != 0) {
    message_.clear();
    open_ = true;
  }
  if (!open_) return std::optional<std::string>();  // the rest of one that began before we came
  if (message_.size() + record.size() > max_bytes_) {
    open_ = false;
    head_ = std::exchange(message_, {}).substr(0, kHead);
    return fail(Errc::over_limit, "a message is too large");
  }
  message_.append(record);
  if ((flags & kLast) == 0) return std::optional<std::string>();
  open_ = false;
  return std::optional(std::exchange(message_, {}));
}

std::optional<std::string> last_of(const std::vector<std::string_view>& records, std::size_t max_bytes) {
  MessageReader reader(max_bytes);
  std::optional<std::string> last;
  for (const auto record : records) {
    auto message = reader.add(record);
    if (!message)
      last.reset();
    else if (*message)
      last = std::move(**message);
  }
  return last;
}

}  // namespace cove::guest
