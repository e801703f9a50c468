#include "egress/synthetic_addresses.hpp"

#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <vector>

#include "egress/port_groups.hpp"

namespace cove::egress {
namespace {

namespace ip = boost::asio::ip;

constexpr std::size_t kBlocks = 16;

}  // namespace

struct SyntheticAddresses::State {
  struct Slot {
    std::string name;
    Clock::time_point handed_out;
    std::size_t users = 0;
    std::list<std::uint32_t>::iterator age;
  };
  // The first address of a block is not used: some programs take one that ends with .0 for a network.
  struct Block {
    std::vector<Slot> slots;
    std::list<std::uint32_t> by_age;  // the oldest first
    std::map<std::string, std::uint32_t, std::less<>> by_name;
  };
  std::array<Block, kBlocks> blocks;

  Slot* find(ip::address_v4 address) {
    const auto offset = address.to_uint() - kSyntheticBase;
    if (address.to_uint() < kSyntheticBase || offset >= kBlocks * kBlockSize || offset % kBlockSize == 0)
      return nullptr;
    auto& slots = blocks.at(offset / kBlockSize).slots;
    const auto index = offset % kBlockSize - 1;
    return index < slots.size() ? &slots[index] : nullptr;
  }
};

SyntheticAddresses::SyntheticAddresses() : state_(std::make_shared<State>()) {}

std::optional<ip::address_v4> SyntheticAddresses::address_of(std::string_view name, std::size_t block,
                                                             Clock::time_point now) {
  auto& in = state_->blocks.at(block);
  const auto address = [block](std::uint32_t index) {
    return ip::address_v4(kSyntheticBase + static_cast<std::uint32_t>(block) * kBlockSize + index + 1);
  };
  if (const auto known = in.by_name.find(name); known != in.by_name.end()) {
    auto& slot = in.slots[known->second];
    slot.handed_out = now;
    in.by_age.splice(in.by_age.end(), in.by_age, slot.age);
    return address(known->second);
  }
  std::uint32_t index = 0;
  if (in.slots.size() < kBlockSize - 1) {
    index = static_cast<std::uint32_t>(in.slots.size());
    in.slots.emplace_back();
    in.slots.back().age = in.by_age.insert(in.by_age.end(), index);
  } else {
    auto oldest = in.by_age.begin();
    while (oldest != in.by_age.end() && in.slots[*oldest].users > 0) ++oldest;
    if (oldest == in.by_age.end() || in.slots[*oldest].handed_out + kKept > now) return std::nullopt;
    index = *oldest;
    in.by_name.erase(in.slots[index].name);
    in.by_age.splice(in.by_age.end(), in.by_age, oldest);
  }
  auto& slot = in.slots[index];
  slot.name = name;
  slot.handed_out = now;
  in.by_name.emplace(name, index);
  return address(index);
}

std::optional<std::string> SyntheticAddresses::name_of(ip::address_v4 address) const {
  const auto* slot = state_->find(address);
  return slot == nullptr ? std::nullopt : std::optional(slot->name);
}

std::size_t SyntheticAddresses::size() const {
  std::size_t count = 0;
  for (const auto& block : state_->blocks) count += block.by_name.size();
  return count;
}

SyntheticAddresses::Use::Use(std::shared_ptr<State> state, ip::address_v4 address)
    : state_(std::move(state)), address_(address) {
  if (auto* slot = state_->find(address_)) ++slot->users;
}

SyntheticAddresses::Use& SyntheticAddresses::Use::operator=(Use&& other) noexcept {
  release();
  state_ = std::move(other.state_);
  address_ = other.address_;
  return *this;
}

void SyntheticAddresses::Use::release() {
  if (!state_) return;
  if (auto* slot = state_->find(address_)) {
    --slot->users;
    // What was just used may be dialled again by who still knows the address.
    slot->handed_out = std::max(slot->handed_out, Clock::now());
  }
  state_.reset();
}

SyntheticAddresses::Use SyntheticAddresses::use(ip::address_v4 address) {
  return {state_, address};
}

}  // namespace cove::egress
