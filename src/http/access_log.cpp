#include "http/access_log.hpp"

#include <fmt/format.h>

#include "base/log_fields.hpp"

namespace cove::http {
std::string to_log_line(const AccessRecord& record) {
  return fmt::format("id={} peer={} tenant={} method={} target={} status={} in={} out={} ms={:.3f} agent={}",
                     log_value(record.id, 64), log_value(record.peer, 64), log_value(record.tenant, 128),
                     log_value(record.method, 32), log_value(record.target, 1024), record.status, record.bytes_in,
                     record.bytes_out, static_cast<double>(record.duration.count()) / 1000.0,
                     log_value(record.user_agent, 256));
}

}  // namespace cove::http
