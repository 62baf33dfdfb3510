#!/usr/bin/env bash
# The tests that went without something when they ran last, each with the remedy.
#
#   xtask/fresh/skipped.sh           the list
#   xtask/fresh/skipped.sh --again   what cargo is to be told so that these tests alone run again; nothing where there are none:
#       again=$(xtask/fresh/skipped.sh --again)
#       [ -z "$again" ] || cargo test --workspace --locked --no-fail-fast $again
#
# crates/ebm-testing/src/needs.rs writes the records, in skipped-tests of the target folder. One that is older than its test program says nothing.
set -euo pipefail
shopt -s nullglob
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
target=${CARGO_TARGET_DIR:-target}
lines=() programs=() tests=()
for record in "$target"/skipped-tests/*; do
  { read -r program && read -r arguments && read -r test && read -r line; } <"$record" || continue
  if [ "$record" -nt "$target/$program" ] && [ -e "$target/$program" ]; then
    lines+=("$line")
    case " ${programs[*]} " in *" $arguments "*) ;; *) programs+=("$arguments") ;; esac
    case " ${tests[*]} " in *" $test "*) ;; *) tests+=("$test") ;; esac
  fi
done
if [ "${1:-}" != --again ]; then
  printf '%s tests went without what they need\n' "${#lines[@]}"
  if ((${#lines[@]} > 0)); then printf '  %s\n' "${lines[@]}"; fi
elif ((${#lines[@]} > 0)); then
  # In a single thread libtest names no test.
  case " ${tests[*]} " in *" main "*) echo "${programs[*]}" ;; *) echo "${programs[*]} -- --exact ${tests[*]}" ;; esac
fi
