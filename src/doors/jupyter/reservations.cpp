#include "doors/jupyter/reservations.hpp"

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <set>

#include "async/signal.hpp"

namespace cove::doors::jupyter {

struct Reservations::Held::State {
  std::set<std::pair<std::string, std::string>> names;  // tenant, name
  std::optional<async::Signal> changed;                 // once somebody waits
};

Reservations::Reservations() : state_(std::make_shared<Held::State>()) {}

Reservations::Held::~Held() {
  if (!state_) return;
  state_->names.erase(name_);
  if (state_->changed) state_->changed->notify_all();
}

std::optional<Reservations::Held> Reservations::try_take(const std::string& tenant, const std::string& name) {
  if (!state_->names.emplace(tenant, name).second) return std::nullopt;
  return Held(state_, {tenant, name});
}

async::Task<Reservations::Held> Reservations::take(std::string tenant, std::string name) {
  const auto executor = co_await boost::asio::this_coro::executor;
  while (true) {
    if (auto held = try_take(tenant, name)) co_return std::move(*held);
    if (!state_->changed) state_->changed.emplace(executor);
    co_await state_->changed->wait();
  }
}

std::size_t Reservations::count(const std::string& tenant, std::string_view prefix) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      state_->names, [&](const auto& name) { return name.first == tenant && name.second.starts_with(prefix); }));
}

}  // namespace cove::doors::jupyter
