#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/budget.hpp"
#include "doors/jupyter/client.hpp"
#include "run/caller.hpp"
#include "run/cell.hpp"
#include "sandbox/core.hpp"

namespace cove::doors::jupyter {

// A kernel as Jupyter's clients see it: takes their requests one after the other, and sends every client what the
// kernel publishes. Of one request, in this order: busy, its input, its outputs, its reply, idle. Nothing is discarded:
// while a client reads slowly the kernel waits.
class Hub : public std::enable_shared_from_this<Hub> {
 public:
  // `id`: the kernel's, as clients know it. `replay`: what is held for clients that are away, of all kernels. `remove`
  // deletes the kernel, for clients that ask for that in a message.
  Hub(sandbox::Core& core, std::shared_ptr<sandbox::Sandbox> sandbox, std::shared_ptr<sandbox::Kernel> kernel,
      std::string id, Budget& replay, std::function<void()> remove);
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  [[nodiscard]] const std::shared_ptr<sandbox::Kernel>& kernel() const { return kernel_; }
  [[nodiscard]] const std::shared_ptr<sandbox::Sandbox>& sandbox() const { return sandbox_; }
  [[nodiscard]] std::size_t connections() const { return clients_.size(); }
  [[nodiscard]] std::chrono::system_clock::time_point last_activity() const { return last_activity_; }
  // Its kernel ended for good, as far as its clients were told.
  [[nodiscard]] bool closed() const { return closed_; }
  [[nodiscard]] bool busy() const { return working_ || !queue_.empty(); }

  // A client of the same session that is still there is closed; what it has missed since it left is sent.
  void attach(const std::shared_ptr<Client>& client);
  void detach(const std::shared_ptr<Client>& client);
  // A message of a client's, and what it takes of the server's memory until it is answered.
  void receive(const std::shared_ptr<Client>& client, Message message, Budget::Charge charge);
  // A new interpreter. Requests that wait are answered as aborted.
  Task<Result<>> restart(journal::Actor actor = {});
  // The kernel was deleted: clients are told, and their connections closed.
  void close();

 private:
  struct Request {
    std::weak_ptr<Client> client;
    std::string session;  // of the client
    Principal principal;
    Message message;
    Budget::Charge charge;
  };

  static Task<> work(std::shared_ptr<Hub> self);
  static Task<> watch(std::shared_ptr<Hub> self);
  Task<> serve(const Request& request);
  void take_input(const Request& request);
  Task<boost::json::object> execute(const Request& request);
  Task<boost::json::object> run_cell(const Request& request, bool silent);
  Task<> run_comm(const Request& request, std::string op);
  Task<Result<run::Cell>> begin_cell(const Request& request, sandbox::ExecuteRequest order);
  Task<> publish_cell(const Request& request, std::shared_ptr<sandbox::Execution> execution, bool shows_input);
  // The error that a request is answered with that was not run; published.
  boost::json::object refused(const Request& request, const Error& error);
  Task<boost::json::object> ask(const Request& request, std::string op);
  void serve_control(const Request& request);
  void answer_at_once(const Request& request, boost::json::object reply);
  Task<> on_death();
  static Task<> restart_later(std::shared_ptr<Hub> self);
  void abort_waiting();

  // What a running cell or a comm's handler says.
  void publish_event(const boost::json::object& parent, sandbox::ExecutionEvent event,
                     std::optional<std::int64_t> count);
  void ask_for_input(const Request& request, boost::json::object content);
  void publish(const boost::json::object& parent, std::string_view type, boost::json::object content,
               std::vector<std::string> buffers = {});
  void publish_status(const boost::json::object& parent, std::string_view state);
  // Null when neither it nor another client of its session is connected.
  [[nodiscard]] std::shared_ptr<Client> find_client(const Request& request) const;
  // To the client that asked, or to the next one of its session.
  void send_to(const Request& request, std::shared_ptr<const Message> message);
  void send_all(const std::shared_ptr<const Message>& message);
  void keep(std::shared_ptr<const Message> message);
  void forget_replay();
  [[nodiscard]] std::shared_ptr<const Message> make(std::string_view channel, std::string_view type,
                                                    const boost::json::object& parent, boost::json::object content,
                                                    std::vector<std::string> buffers = {}) const;
  // Waits while a client has too much to read.
  Task<> wait_for_clients();
  [[nodiscard]] std::string run_session() const;

  sandbox::Core& core_;
  std::shared_ptr<sandbox::Sandbox> sandbox_;
  std::shared_ptr<sandbox::Kernel> kernel_;
  std::string id_;
  std::function<void()> remove_;
  std::vector<std::shared_ptr<Client>> clients_;
  std::optional<sandbox::Sandbox::Activity> in_use_;  // while somebody is connected
  std::deque<Request> queue_;
  std::size_t queued_bytes_ = 0;
  const Request* running_ = nullptr;  // the one that is being answered
  bool working_ = false;
  bool watching_ = false;
  bool closed_ = false;
  std::size_t restarts_ = 0;  // in a row, after deaths
  std::deque<std::shared_ptr<const Message>> replay_;
  std::optional<std::string> replay_session_;  // whose client left last; none: nothing is kept
  Budget& replay_budget_;
  Budget::Charge replay_charge_;
  std::uint64_t replay_bytes_ = 0;
  std::uint64_t replay_lost_ = 0;
  std::chrono::system_clock::time_point last_activity_;
};

}  // namespace cove::doors::jupyter
