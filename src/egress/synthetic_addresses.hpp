#pragma once

#include <boost/asio/ip/address_v4.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace cove::egress {

// The addresses that stand for names in one sandbox (port_groups.hpp), both ways. Each block has room for as many names
// as it has addresses; when it is full, the name that was asked for longest ago makes room. An address in use by a
// connection, or handed out within kKept, keeps its name: who looked a name up must not reach another.
class SyntheticAddresses {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::minutes kKept{5};

  SyntheticAddresses();

  // Nothing: the block is full of names that must be kept.
  std::optional<boost::asio::ip::address_v4> address_of(std::string_view name, std::size_t block,
                                                        Clock::time_point now);
  // Nothing: it stands for no name.
  [[nodiscard]] std::optional<std::string> name_of(boost::asio::ip::address_v4 address) const;
  [[nodiscard]] std::size_t size() const;

 private:
  struct State;

 public:
  // While it lives the address keeps its name. May outlive the table.
  class Use {
   public:
    Use() = default;
    Use(std::shared_ptr<State> state, boost::asio::ip::address_v4 address);
    Use(Use&& other) noexcept = default;
    Use& operator=(Use&& other) noexcept;
    ~Use() { release(); }

   private:
    void release();
    std::shared_ptr<State> state_;
    boost::asio::ip::address_v4 address_;
  };
  Use use(boost::asio::ip::address_v4 address);

 private:
  std::shared_ptr<State> state_;
};

}  // namespace cove::egress
