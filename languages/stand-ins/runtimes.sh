#!/bin/sh
# java, javac and node in a sandbox. They ask the host how large the machine is; here they are told the sandbox's size.
name=${0##*/}
IFS=:
for directory in $PATH; do
  [ "$directory" = /cove/stand-ins ] || [ ! -x "$directory/$name" ] || { program=$directory/$name; break; }
done
unset IFS
[ -n "$program" ] || { echo "$name: command not found" >&2; exit 127; }
[ -n "$SANDBOX_MEMORY_BYTES" ] || exec "$program" "$@"
case $name in
  # A JVM takes a quarter of the memory it sees. 60 % of the sandbox's: one program at a time is the rule here, and what is
  # left is enough for its code, its threads, its compiler and a few files. -Xmx and the like come behind, and win. The
  # number of cores it sees for itself.
  java) exec "$program" "-XX:MaxRAM=$SANDBOX_MEMORY_BYTES" -XX:MaxRAMPercentage=60 "$@" ;;
  javac) exec "$program" "-J-XX:MaxRAM=$SANDBOX_MEMORY_BYTES" -J-XX:MaxRAMPercentage=60 "$@" ;;
  # Its heap is set by NODE_OPTIONS; this is for os.cpus() and os.totalmem().
  node) exec "$program" --require /cove/javascript/machine.cjs "$@" ;;
esac
