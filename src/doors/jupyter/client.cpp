#include "doors/jupyter/client.hpp"

namespace cove::doors::jupyter {

Client::Client(boost::asio::any_io_executor executor, std::shared_ptr<http::WebSocket> socket, Framing framing,
               std::string session, Principal principal)
    : socket_(std::move(socket)),
      framing_(framing),
      session_(std::move(session)),
      principal_(std::move(principal)),
      changed_(std::move(executor)) {}

void Client::send(std::shared_ptr<const Frame> frame) {
  if (over_ || close_code_ != 0) return;
  queued_ += frame->data.size();
  queue_.push_back(std::move(frame));
  changed_.notify_all();
}

void Client::close(std::uint16_t code, std::string reason) {
  if (close_code_ != 0) return;
  close_code_ = code;
  close_reason_ = std::move(reason);
  changed_.notify_all();
}

void Client::cut() {
  over_ = true;
  queue_.clear();
  queued_ = 0;
  socket_->cutter()();
  changed_.notify_all();
}

Task<> Client::pump(std::shared_ptr<Client> self) {
  while (!self->over_) {
    if (self->queue_.empty() && self->close_code_ != 0) {
      co_await self->socket_->close(self->close_code_, self->close_reason_);
      break;
    }
    if (self->queue_.empty()) {
      co_await self->changed_.wait();
      continue;
    }
    const auto frame = self->queue_.front();
    self->queue_.pop_front();
    Result<> sent;
    if (frame->text)
      sent = co_await self->socket_->send_text(frame->data);
    else
      sent = co_await self->socket_->send_binary(frame->data);
    if (!sent) break;
    self->queued_ -= std::min(self->queued_, frame->data.size());
    self->changed_.notify_all();
  }
  self->cut();
}

}  // namespace cove::doors::jupyter
