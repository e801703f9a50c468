#include "egress/flow.hpp"

namespace cove::egress {

void Flow::cut(std::string why) {
  if (error.empty()) error = std::move(why);
  for (auto* socket : {&client, &upstream}) {
    boost::system::error_code ignored;
    if (!socket->is_open()) continue;
    socket->set_option(boost::asio::socket_base::linger(true, 0), ignored);
    socket->close(ignored);
  }
  changed.notify_all();
}

}  // namespace cove::egress
