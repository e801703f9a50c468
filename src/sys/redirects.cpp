#include "sys/redirects.hpp"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter_ipv4.h>
#include <netinet/in.h>

#include <cstring>

#include "sys/netlink.hpp"

// nft(8) would show the rules as
//
//   table inet cove {
//     chain way { type nat hook output priority -100;
//       ip daddr 127.0.0.0/8 accept
//       ip6 daddr ::1 accept
//       ip daddr ADDRESS/PREFIX tcp dport FIRST-LAST redirect to :1008     (one for each)
//       udp dport 53 redirect to :53                                       (on request)
//     }
//     chain wall { type filter hook output priority 0;
//       ip daddr 127.0.0.0/8 accept
//       ip6 daddr ::1 accept
//       ct state established,related accept
//       reject with icmpx no-route
//     }
//   }

namespace cove::sys {
namespace {

constexpr std::string_view kTable = "cove";
constexpr std::string_view kWay = "way";
constexpr std::string_view kWall = "wall";
constexpr std::uint32_t kRegister = NFT_REG_1;

constexpr std::uint16_t message_type(int message) {
  return static_cast<std::uint16_t>((NFNL_SUBSYS_NFTABLES << 8) | message);
}

// A batch of changes to one table, written expression by expression.
class Batch {
 public:
  Batch() { frame(NFNL_MSG_BATCH_BEGIN); }

  void add_table() { begin(NFT_MSG_NEWTABLE, NLM_F_CREATE), message_.put_text(NFTA_TABLE_NAME, kTable); }
  void remove_table() { begin(NFT_MSG_DELTABLE, 0), message_.put_text(NFTA_TABLE_NAME, kTable); }

  void add_chain(std::string_view name, std::string_view type, int priority) {
    begin(NFT_MSG_NEWCHAIN, NLM_F_CREATE);
    message_.put_text(NFTA_CHAIN_TABLE, kTable);
    message_.put_text(NFTA_CHAIN_NAME, name);
    {
      const auto hook = message_.nest(NFTA_CHAIN_HOOK);
      message_.put_be32(NFTA_HOOK_HOOKNUM, NF_INET_LOCAL_OUT);
      message_.put_be32(NFTA_HOOK_PRIORITY, static_cast<std::uint32_t>(priority));
    }
    message_.put_be32(NFTA_CHAIN_POLICY, NF_ACCEPT);
    message_.put_text(NFTA_CHAIN_TYPE, type);
  }

  template <typename Expressions>
  void add_rule(std::string_view chain, Expressions expressions) {
    begin(NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);
    message_.put_text(NFTA_RULE_TABLE, kTable);
    message_.put_text(NFTA_RULE_CHAIN, chain);
    const auto list = message_.nest(NFTA_RULE_EXPRESSIONS);
    expressions(*this);
  }

  // Expressions. Each loads into, compares or uses the one register.

  void match_meta(std::uint32_t key, std::uint8_t value) {
    expression("meta", [&] {
      message_.put_be32(NFTA_META_KEY, key);
      message_.put_be32(NFTA_META_DREG, kRegister);
    });
    compare(NFT_CMP_EQ, std::as_bytes(std::span(&value, 1)));
  }

  void match_destination(std::uint8_t family, std::span<const std::uint8_t> address, unsigned prefix) {
    const std::size_t size = family == AF_INET ? 4 : 16;
    match_meta(NFT_META_NFPROTO, family == AF_INET ? NFPROTO_IPV4 : NFPROTO_IPV6);
    if (prefix == 0) return;
    load_payload(NFT_PAYLOAD_NETWORK_HEADER, family == AF_INET ? 16 : 24, static_cast<std::uint32_t>(size));
    std::array<std::uint8_t, 16> mask{};
    for (unsigned bit = 0; bit < prefix; ++bit) mask[bit / 8] |= static_cast<std::uint8_t>(0x80U >> (bit % 8));
    const std::array<std::uint8_t, 16> none{};
    expression("bitwise", [&] {
      message_.put_be32(NFTA_BITWISE_SREG, kRegister);
      message_.put_be32(NFTA_BITWISE_DREG, kRegister);
      message_.put_be32(NFTA_BITWISE_LEN, static_cast<std::uint32_t>(size));
      put_data(NFTA_BITWISE_MASK, std::as_bytes(std::span(mask)).first(size));
      put_data(NFTA_BITWISE_XOR, std::as_bytes(std::span(none)).first(size));
    });
    std::array<std::uint8_t, 16> wanted{};
    for (std::size_t i = 0; i < size; ++i) wanted[i] = address[i] & mask[i];
    compare(NFT_CMP_EQ, std::as_bytes(std::span(wanted)).first(size));
  }

  void match_port(std::uint8_t protocol, std::uint16_t first, std::uint16_t last) {
    match_meta(NFT_META_L4PROTO, protocol);
    if (first == 0 && last == 65535) return;
    load_payload(NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2);
    const std::uint16_t from = htons(first);
    const std::uint16_t to = htons(last);
    compare(NFT_CMP_GTE, std::as_bytes(std::span(&from, 1)));
    compare(NFT_CMP_LTE, std::as_bytes(std::span(&to, 1)));
  }

  void match_established() {
    expression("ct", [&] {
      message_.put_be32(NFTA_CT_KEY, NFT_CT_STATE);
      message_.put_be32(NFTA_CT_DREG, kRegister);
    });
    const std::uint32_t states = NF_CT_STATE_BIT(IP_CT_ESTABLISHED) | NF_CT_STATE_BIT(IP_CT_RELATED);
    const std::uint32_t none = 0;
    expression("bitwise", [&] {
      message_.put_be32(NFTA_BITWISE_SREG, kRegister);
      message_.put_be32(NFTA_BITWISE_DREG, kRegister);
      message_.put_be32(NFTA_BITWISE_LEN, sizeof states);
      put_data(NFTA_BITWISE_MASK, std::as_bytes(std::span(&states, 1)));
      put_data(NFTA_BITWISE_XOR, std::as_bytes(std::span(&none, 1)));
    });
    compare(NFT_CMP_NEQ, std::as_bytes(std::span(&none, 1)));
  }

  void accept() {
    expression("immediate", [&] {
      message_.put_be32(NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
      const auto data = message_.nest(NFTA_IMMEDIATE_DATA);
      const auto verdict = message_.nest(NFTA_DATA_VERDICT);
      message_.put_be32(NFTA_VERDICT_CODE, NF_ACCEPT);
    });
  }

  void redirect(std::uint16_t port) {
    const std::uint16_t to = htons(port);
    expression("immediate", [&] {
      message_.put_be32(NFTA_IMMEDIATE_DREG, kRegister);
      put_data(NFTA_IMMEDIATE_DATA, std::as_bytes(std::span(&to, 1)));
    });
    expression("redir", [&] {
      message_.put_be32(NFTA_REDIR_REG_PROTO_MIN, kRegister);
      message_.put_be32(NFTA_REDIR_REG_PROTO_MAX, kRegister);
    });
  }

  void reject() {
    expression("reject", [&] {
      message_.put_be32(NFTA_REJECT_TYPE, NFT_REJECT_ICMPX_UNREACH);
      const std::uint8_t code = NFT_REJECT_ICMPX_NO_ROUTE;
      message_.put(NFTA_REJECT_ICMP_CODE, std::as_bytes(std::span(&code, 1)));
    });
  }

  Result<> commit() {
    frame(NFNL_MSG_BATCH_END);
    COVE_TRY(auto socket, NetlinkSocket::open(NETLINK_NETFILTER));
    return socket.transact(message_, "change the nftables rules of the sandbox");
  }

 private:
  void frame(int type) {
    const nfgenmsg header{.nfgen_family = AF_UNSPEC, .version = NFNETLINK_V0, .res_id = htons(NFNL_SUBSYS_NFTABLES)};
    message_.begin(static_cast<std::uint16_t>(type), NLM_F_REQUEST, header);
  }

  void begin(int type, int flags) {
    const nfgenmsg header{.nfgen_family = NFPROTO_INET, .version = NFNETLINK_V0, .res_id = 0};
    message_.begin(message_type(type), static_cast<std::uint16_t>(NLM_F_REQUEST | NLM_F_ACK | flags), header);
  }

  template <typename Body>
  void expression(std::string_view name, Body body) {
    const auto element = message_.nest(NFTA_LIST_ELEM);
    message_.put_text(NFTA_EXPR_NAME, name);
    const auto data = message_.nest(NFTA_EXPR_DATA);
    body();
  }

  void put_data(std::uint16_t type, std::span<const std::byte> value) {
    const auto data = message_.nest(type);
    message_.put(NFTA_DATA_VALUE, value);
  }

  void load_payload(std::uint32_t base, std::uint32_t offset, std::uint32_t size) {
    expression("payload", [&] {
      message_.put_be32(NFTA_PAYLOAD_DREG, kRegister);
      message_.put_be32(NFTA_PAYLOAD_BASE, base);
      message_.put_be32(NFTA_PAYLOAD_OFFSET, offset);
      message_.put_be32(NFTA_PAYLOAD_LEN, size);
    });
  }

  void compare(std::uint32_t how, std::span<const std::byte> value) {
    expression("cmp", [&] {
      message_.put_be32(NFTA_CMP_SREG, kRegister);
      message_.put_be32(NFTA_CMP_OP, how);
      put_data(NFTA_CMP_DATA, value);
    });
  }

  NetlinkMessage message_;
};

void accept_loopback(Batch& batch, std::string_view chain) {
  constexpr std::array<std::uint8_t, 16> kLoopback4{127};
  constexpr std::array<std::uint8_t, 16> kLoopback6{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  batch.add_rule(chain, [&](Batch& rule) { rule.match_destination(AF_INET, kLoopback4, 8), rule.accept(); });
  batch.add_rule(chain, [&](Batch& rule) { rule.match_destination(AF_INET6, kLoopback6, 128), rule.accept(); });
}

}  // namespace

Result<> set_redirects(std::span<const Redirect> redirects, DnsRedirect dns) {
  Batch batch;
  // The table is there then, so that it can be removed with everything in it, and made anew.
  batch.add_table();
  batch.remove_table();
  batch.add_table();
  batch.add_chain(kWay, "nat", -100);
  accept_loopback(batch, kWay);
  for (const auto& one : redirects) {
    batch.add_rule(kWay, [&](Batch& rule) {
      rule.match_destination(one.family, one.address, one.prefix);
      rule.match_port(IPPROTO_TCP, one.first_port, one.last_port);
      rule.redirect(kRelayPort);
    });
  }
  if (dns == DnsRedirect::yes) {
    batch.add_rule(kWay,
                   [](Batch& rule) { rule.match_port(IPPROTO_UDP, kDnsPort, kDnsPort), rule.redirect(kDnsPort); });
  }
  batch.add_chain(kWall, "filter", 0);
  accept_loopback(batch, kWall);
  batch.add_rule(kWall, [](Batch& rule) { rule.match_established(), rule.accept(); });
  batch.add_rule(kWall, [](Batch& rule) { rule.reject(); });
  return batch.commit();
}

Result<> remove_redirects() {
  Batch batch;
  batch.add_table();
  batch.remove_table();
  return batch.commit();
}

}  // namespace cove::sys
