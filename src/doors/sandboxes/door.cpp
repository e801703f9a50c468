#include "doors/sandboxes/door.hpp"

namespace cove::doors::sandboxes {

std::vector<Route> routes() {
  return http::joined<Services>({lifecycle_routes(), update_routes(), template_routes(), exec_routes(),
                                 process_routes(), port_routes(), network_routes(), tool_routes(), listener_routes(),
                                 kernel_routes(), kernel_execution_routes(), kernel_question_routes(),
                                 execution_routes(), dependency_routes(), file_routes(), event_routes(),
                                 activity_routes()});
}

void add_routes(http::Router& router, Services& services) {
  http::add_routes(router, routes(), services, "sandboxes");
}

}  // namespace cove::doors::sandboxes
