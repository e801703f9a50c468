#!/bin/sh
# Runs a Java program. One that stands alone is launched from its source. Where there are other sources below the current
# directory they are found as well: `java FILE` before version 22 sees no file but its own.
for tool in java javac; do
  # The stand-ins of these names are always there.
  (PATH=${PATH#/cove/stand-ins:} && command -v "$tool") >/dev/null 2>&1 || { echo "Command not found: $tool" >&2; exit 127; }
done
source=$1
shift
others=$(find . -name '*.java' -not -path '*/.*' | head -n 2 | wc -l)
[ "$others" -gt 0 ] || exec java "$source" "$@"
case "$source" in
  */.* | .*) ;;
  *) [ "$others" -gt 1 ] || exec java "$source" "$@" ;;
esac
out=$(mktemp -d /tmp/java-XXXXXX) || exit 125
mkdir "$out/source" "$out/classes" || exit 125
package=$(sed -n 's/^[[:space:]]*package[[:space:]]\{1,\}\([A-Za-z0-9_.]\{1,\}\)[[:space:]]*;.*/\1/p' "$source" | head -n 1)
# The class with main, as far as that can be told without reading Java: the public one, else the one before main.
main=$(sed -n 's/^[[:space:]]*public[[:space:]].*\<\(class\|record\|enum\|interface\)[[:space:]]\{1,\}\([A-Za-z0-9_$]\{1,\}\).*/\2/p' "$source" | head -n 1)
[ -n "$main" ] || main=$(awk '{
    if (match($0, /(^|[[:space:]])(class|record|enum|interface)[[:space:]]+[A-Za-z0-9_$]+/)) { n = split(substr($0, RSTART, RLENGTH), w, /[[:space:]]+/); last = w[n] }
    if ($0 ~ /static[[:space:]]+(final[[:space:]]+)?void[[:space:]]+main[[:space:]]*\(/) { print last; exit } }' "$source")
[ -n "$main" ] || exec java "$source" "$@"
# A public class lies in a file of its name.
cp "$source" "$out/source/$main.java" || exit 125
javac -proc:none -sourcepath . -d "$out/classes" "$out/source/$main.java" || exit 1
exec java -cp "$out/classes:." "${package:+$package.}$main" "$@"
