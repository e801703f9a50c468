#include "egress/audit.hpp"

#include <boost/json/serialize.hpp>

#include "base/clock.hpp"

namespace cove::egress {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxLookups = 512;

std::string_view word_of(AuditKind kind) {
  switch (kind) {
    case AuditKind::dns:
      return "dns";
    case AuditKind::connect:
      return "connect";
    case AuditKind::proxy:
      return "proxy";
    case AuditKind::http:
      break;
  }
  return "http";
}

json::object record_of(std::string_view event, const AuditSubject& subject, const Decision& decision) {
  json::object record;
  record["time"] = unix_millis();
  record["event"] = event;
  record["kind"] = word_of(subject.kind);
  record["name"] = subject.name;
  record["address"] = subject.address ? subject.address->to_string() : std::string();
  record["port"] = subject.port;
  record["verdict"] = decision.verdict == Verdict::allowed ? "allowed" : "denied";
  record["rule"] = decision.rule;
  return record;
}

}  // namespace

void AuditLog::add(json::object record) {
  if (waiting_.size() >= kMaxWaiting) {
    ++lost_;
    ++untold_;
    return;
  }
  waiting_.push_back(json::serialize(record));
  if (on_record_) on_record_();
}

void AuditLog::decided(const AuditSubject& subject, const Decision& decision) {
  add(record_of("decided", subject, decision));
}

void AuditLog::closed(const AuditSubject& subject, const Decision& decision, const AuditEnd& end) {
  auto record = record_of("closed", subject, decision);
  record["bytes_in"] = end.bytes_in;
  record["bytes_out"] = end.bytes_out;
  record["duration_ms"] = end.duration.count();
  if (!end.error.empty()) record["error"] = end.error;
  add(std::move(record));
}

void AuditLog::looked_up(const std::string& name, const Decision& decision, Clock::time_point now) {
  std::uint64_t repeated = 0;
  if (const auto known = lookups_.find(name); known != lookups_.end()) {
    auto& lookup = known->second;
    if (lookup.verdict == decision.verdict && now - lookup.told < kSameLookup) {
      ++lookup.repeated;
      return;
    }
    repeated = lookup.repeated;
  } else if (lookups_.size() >= kMaxLookups) {
    std::erase_if(lookups_, [now](const auto& entry) { return now - entry.second.told >= kSameLookup; });
    if (lookups_.size() >= kMaxLookups) lookups_.clear();
  }
  lookups_.insert_or_assign(name, Lookup{.told = now, .verdict = decision.verdict});
  auto record = record_of("decided", {.kind = AuditKind::dns, .name = name}, decision);
  if (repeated > 0) record["repeated"] = repeated;
  add(std::move(record));
}

std::optional<std::string> AuditLog::take() {
  if (waiting_.empty()) {
    if (untold_ == 0) return std::nullopt;
    json::object record;
    record["time"] = unix_millis();
    record["lost"] = std::exchange(untold_, 0);
    return json::serialize(record);
  }
  auto record = std::move(waiting_.front());
  waiting_.pop_front();
  return record;
}

}  // namespace cove::egress
