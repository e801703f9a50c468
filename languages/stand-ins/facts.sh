#!/bin/sh
# free, ps, top, uptime, lscpu, ss and netstat in a sandbox, with its own numbers. What these programs read elsewhere are
# files that tell of the host, which no sandbox has. Here they come from the sandbox's limits (SANDBOX_MEMORY_BYTES,
# SANDBOX_CPUS) and from its own processes in /proc.
export LC_ALL=C
tab=$(printf "\t")
name=${0##*/}
cpus=${SANDBOX_CPUS:-$(nproc)}

# One line for each process, but for what works on this very answer: pid, parent, state, time, start, pages, bytes of address
# space, terminal, name, command line. Times are in ticks.
processes() {
  for directory in /proc/[0-9]*; do
    line=$(tr '\000\n' '  ' 2>/dev/null <"$directory/stat") || continue
    words=$(tr '\000\n\t' '   ' 2>/dev/null <"$directory/cmdline")
    [ -z "$line" ] || printf '%s\t%s\n' "$line" "$words"
  done | awk -F '\t' -v self=$$ '{
    pid = $1 + 0
    comm = $1; sub(/^[0-9]* \(/, "", comm); rest = comm; sub(/^.*\) /, "", rest); sub(/\) [A-Z] [-0-9 ]*$/, "", comm)
    split(rest, f, " ")
    words = $2; sub(/ +$/, "", words); if (words == "") words = "[" comm "]"
    gsub(/[^ -~]/, "?", words); gsub(/[^ -~]/, "?", comm); sub("^/bin/sh /cove/stand-ins/", "", words)
    parent[pid] = f[2]
    line[pid] = sprintf("%d\t%d\t%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s", pid, f[2], f[1], f[12] + f[13], f[20], f[22], f[21], (f[5] == 0 ? "?" : "pts/" f[5] % 256), comm, words)
  }
  function ours(pid) { return pid in parent && (parent[pid] == self || ours(parent[pid])) }
  END { for (pid in line) if (!ours(pid)) print line[pid] }' | sort -n
}

# Now, as ticks since the host started: when this very process began.
now() { awk '{ sub(/^.*\) /, ""); split($0, f, " "); print f[20] }' /proc/self/stat; }
age() { awk -v now="$(now)" '{ sub(/^.*\) /, ""); split($0, f, " "); print int((now - f[20]) / 100) }' /proc/1/stat; }

# In KiB: total, used by processes, files. Files lie in memory and count.
memory() {
  used=$(cat /proc/[0-9]*/smaps_rollup 2>/dev/null | awk '/^Pss:/ { sum += $2 } END { print sum + 0 }')
  files=$(df -kP / | awk 'NR == 2 { print $3 }')
  echo "$((${SANDBOX_MEMORY_BYTES:-0} / 1024)) $used $files"
}

uptime_line() {
  running=$(processes | awk -F '\t' '$3 == "R" { n++ } END { printf "%.2f", n + 0 }')
  age | awk -v clock="$(date +%T)" -v load="$running" '{
    d = int($1 / 86400); h = int($1 / 3600) % 24; m = int($1 / 60) % 60
    up = (d > 0 ? d " day" (d > 1 ? "s" : "") ", " : "") (h > 0 ? sprintf("%2d:%02d", h, m) : m " min")
    printf " %s up %s,  0 users,  load average: %s, %s, %s\n", clock, up, load, load, load }'
}

show_free() {
  unit=1 human=
  for word in "$@"; do
    case $word in
      -b | --bytes) unit=0 ;; -m | --mebi) unit=1024 ;; -g | --gibi) unit=1048576 ;; -h | --human) human=1 ;;
    esac
  done
  memory | awk -v unit="$unit" -v human="$human" '
    function size(kib,  i) {
      if (human == "") return unit == 0 ? sprintf("%.0f", kib * 1024) : int(kib / unit)
      i = 1; while (kib >= 1024 && i < 4) { kib /= 1024; i++ }
      return sprintf(kib < 10 && i > 1 ? "%.1f%s" : "%.0f%s", kib, substr("KMGT", i, 1) "i") }
    {
      total = $1; used = $2; files = $3; left = total - used - files; if (left < 0) left = 0
      printf "%-8s %11s %11s %11s %11s %11s %11s\n", "", "total", "used", "free", "shared", "buff/cache", "available"
      printf "%-8s %11s %11s %11s %11s %11s %11s\n", "Mem:", size(total), size(used), size(left), size(files), size(files), size(left)
      printf "%-8s %11s %11s %11s\n", "Swap:", size(0), size(0), size(0) }'
}

# ps: columns by name, from a table of what each is called and how wide it is.
show_ps() {
  usual=pid,tty,time,comm=CMD
  columns=$usual only= previous= order=1n
  for word in "$@"; do
    case $previous in
      -o | -eo | -Ao | -axo | axo | --format) columns=$word ;;
      -p | --pid) only=$word ;;
    esac
    case $word in
      --format=* | -o=*) columns=${word#*=} ;;
      -o?* | -p?*) case $word in -o*) columns=${word#-o} ;; *) only=${word#-p} ;; esac ;;
      --sort=*%mem | --sort=*pmem | --sort=*rss) order=6n ;;
      --sort=*%cpu | --sort=*pcpu | --sort=*time) order=4n ;;
      --*) ;;
      -*f*) [ "$columns" != "$usual" ] || columns=uid,pid,ppid,c,stime,tty,time,cmd ;;
      *u*) [ "$columns" != "$usual" ] || columns=user,pid,%cpu,%mem,vsz,rss,tty,stat,start,time,command ;;
    esac
    case $word in --sort=-*) order=${order}r ;; esac
    previous=$word
  done
  processes | sort -t "$tab" -k "${order%%[nr]*},$order" | awk -F '\t' -v columns="$columns" -v only="$only" -v now="$(now)" -v clock="$(date +%s)" -v total="${SANDBOX_MEMORY_BYTES:-0}" '
    function span(s) { return s < 3600 ? sprintf("%02d:%02d", s / 60, s % 60) : sprintf("%02d:%02d:%02d", s / 3600, s / 60 % 60, s % 60) }
    function value(c) {
      if (c == "pid" || c == "pgid" || c == "sid") return $1
      if (c == "ppid") return $2
      if (c == "stat" || c == "s" || c == "state") return $3
      if (c == "time" || c == "cputime") return sprintf("%02d:%02d:%02d", $4 / 360000, $4 / 6000 % 60, $4 / 100 % 60)
      if (c == "c") return int(share())
      if (c == "%cpu" || c == "pcpu") return sprintf("%.1f", share())
      if (c == "%mem" || c == "pmem") return sprintf("%.1f", total > 0 ? $6 * 4096 * 100 / total : 0)
      if (c == "rss" || c == "rsz") return $6 * 4
      if (c == "vsz") return int($7 / 1024)
      if (c == "tty" || c == "tt") return $8
      if (c == "etime") return span((now - $5) / 100)
      if (c == "etimes") return int((now - $5) / 100)
      if (c == "stime" || c == "start" || c == "lstart") return at(clock - (now - $5) / 100)
      if (c == "comm" || c == "ucmd") return $9
      if (c == "cmd" || c == "args" || c == "command") return $10
      if (c == "user" || c == "uid" || c == "euser" || c == "uname") return "cove"
      if (c == "ni" || c == "nice") return 0
      return "-" }
    function share() { return now > $5 ? $4 * 100 / (now - $5) : 0 }
    function at(s) { return sprintf("%02d:%02d", s / 3600 % 24, s / 60 % 60) }
    BEGIN {
      n = split(columns, name, ","); m = split(only, wanted, ","); for (i = 1; i <= m; i++) chosen[wanted[i]] = 1
      w["user"] = -8; w["uid"] = -8; w["tty"] = w["tt"] = -6; w["stat"] = w["s"] = w["state"] = -4; w["comm"] = w["cmd"] = w["args"] = w["command"] = -1
      w["pid"] = w["ppid"] = 7; w["vsz"] = w["rss"] = 8; w["c"] = 2; w["time"] = 8
      for (i = 1; i <= n; i++) { title = name[i]; sub(/=.*/, "", name[i]); if (title ~ /=/) sub(/^[^=]*=/, "", title); else title = toupper(title)
        if (title != "") some = 1; head = head sprintf("%" width(i) "s ", title) }
      sub(/ +$/, "", head); if (some) print head }
    function width(i) { return w[name[i]] == 0 ? 6 : w[name[i]] }
    m == 0 || $1 in chosen { line = ""; for (i = 1; i <= n; i++) line = line sprintf("%" width(i) "s ", value(name[i])); sub(/ +$/, "", line); print line; shown++ }
    END { exit !shown }'
}

frame() {
  printf 'top -%s\n' "$(uptime_line)"
  processes | awk -F '\t' '{ n++; s[$3]++ } END { printf "Tasks: %3d total, %3d running, %3d sleeping, %3d stopped, %3d zombie\n", n, s["R"], s["S"] + s["D"] + s["I"], s["T"], s["Z"] }'
  memory | awk '{ printf "MiB Mem : %8.1f total, %8.1f free, %8.1f used, %8.1f buff/cache\nMiB Swap: %8.1f total, %8.1f free, %8.1f used.\n\n", $1 / 1024, ($1 - $2 - $3) / 1024, $2 / 1024, $3 / 1024, 0, 0, 0 }'
  show_ps -o pid,user,ni,vsz,rss,s,%cpu,%mem,time,comm
}
show_top() {
  batch= count= delay=3 previous=
  for word in "$@"; do
    case $previous in -n | -bn) count=$word ;; -d) delay=$word ;; esac
    case $word in -n[0-9]*) count=${word#-n} ;; -bn[0-9]*) count=${word#-bn} ;; esac
    case $word in -b*) batch=1 ;; esac
    previous=$word
  done
  while :; do
    [ -n "$batch" ] || printf '\033[H\033[J'
    frame
    [ -z "$count" ] || { count=$((count - 1)); [ "$count" -gt 0 ] || return 0; }
    sleep "$delay"
  done
}

show_lscpu() {
  last=$((cpus - 1))
  printf '%-24s%s\n' 'Architecture:' "$(uname -m)" 'Byte Order:' 'Little Endian' 'CPU(s):' "$cpus" \
    'On-line CPU(s) list:' "$([ "$last" -eq 0 ] && echo 0 || echo "0-$last")" 'Thread(s) per core:' 1 \
    'Core(s) per socket:' "$cpus" 'Socket(s):' 1
}

# ss and netstat: the sockets of the sandbox's own network.
show_sockets() {
  flags=$(printf '%s' "$*" | sed 's/--listening/-l/; s/--all/-a/; s/--tcp/-t/; s/--udp/-u/; s/--unix/-x/; s/--[a-z]*//g')
  for kind in tcp tcp6 udp udp6; do sed "1d; s/^/$kind /" "/proc/self/net/$kind" 2>/dev/null; done |
    awk -v flags="$flags" -v form="$name" '
      function number(hex,  i, n) { n = 0; for (i = 1; i <= length(hex); i++) n = n * 16 + index("0123456789ABCDEF", substr(hex, i, 1)) - 1; return n }
      function four(hex) { return number(substr(hex, 7, 2)) "." number(substr(hex, 5, 2)) "." number(substr(hex, 3, 2)) "." number(substr(hex, 1, 2)) }
      function address(text,  part, host, port) {
        split(text, part, ":"); host = part[1]; port = number(part[2])
        if (length(host) == 8) host = four(host)
        else if (host ~ /^0*$/) host = "[::]"
        else if (host == "00000000000000000000000001000000") host = "[::1]"
        else if (substr(host, 1, 24) == "0000000000000000FFFF0000") host = "[::ffff:" four(substr(host, 25)) "]"
        else host = "[" tolower(host) "]"
        return host ":" (port == 0 ? "*" : port) }
      BEGIN {
        split("ESTAB SYN-SENT SYN-RECV FIN-WAIT-1 FIN-WAIT-2 TIME-WAIT UNCONN CLOSE-WAIT LAST-ACK LISTEN CLOSING", state, " ")
        any = flags !~ /[tu]/
        if (form == "ss") printf "%-6s%-12s%-8s%-8s%-28s%s\n", "Netid", "State", "Recv-Q", "Send-Q", "Local Address:Port", "Peer Address:Port"
        else printf "%-6s%-8s%-8s%-24s%-24s%s\n", "Proto", "Recv-Q", "Send-Q", "Local Address", "Foreign Address", "State" }
      {
        kind = substr($1, 1, 3); s = state[number($5)]; waits = s == "LISTEN" || s == "UNCONN"
        if (!any && flags !~ (kind == "tcp" ? "t" : "u")) next
        if (flags !~ /a/ && (flags ~ /l/) != waits) next
        split($6, queue, ":")
        if (form == "ss") printf "%-6s%-12s%-8s%-8s%-28s%s\n", kind, s, number(queue[2]), number(queue[1]), address($3), address($4)
        else printf "%-6s%-8s%-8s%-24s%-24s%s\n", $1, number(queue[2]), number(queue[1]), address($3), address($4), s == "ESTAB" ? "ESTABLISHED" : s == "UNCONN" ? "" : s }'
}

case $name in
  free) show_free "$@" ;;
  ps) show_ps "$@" ;;
  top | htop) show_top "$@" ;;
  uptime) uptime_line ;;
  lscpu) show_lscpu ;;
  ss | netstat) show_sockets "$@" ;;
esac
