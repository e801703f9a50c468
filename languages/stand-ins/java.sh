#!/bin/sh
# java and javac in a sandbox. A JVM asks the host how much memory there is, and takes a quarter of that. Told the
# sandbox's memory it takes 60 %: one program at a time is the rule here, and what is left is enough for its code, its
# threads, its compiler and a few files. -Xmx and the like come behind, and win. The number of cores it sees for itself.
name=${0##*/}
IFS=:
for directory in $PATH; do
  [ "$directory" = /cove/stand-ins ] || [ ! -x "$directory/$name" ] || { program=$directory/$name; break; }
done
unset IFS
[ -n "$program" ] || { echo "$name: command not found" >&2; exit 127; }
[ -n "$SANDBOX_MEMORY_BYTES" ] || exec "$program" "$@"
case $name in
  java) exec "$program" "-XX:MaxRAM=$SANDBOX_MEMORY_BYTES" -XX:MaxRAMPercentage=60 "$@" ;;
  *) exec "$program" "-J-XX:MaxRAM=$SANDBOX_MEMORY_BYTES" -J-XX:MaxRAMPercentage=60 "$@" ;;
esac
