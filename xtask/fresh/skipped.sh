#!/usr/bin/env bash
# Lists the tests that were skipped or shortened in their last run because something was missing, each with the remedy.
#
#   xtask/fresh/skipped.sh           the list
#   xtask/fresh/skipped.sh --again   cargo's arguments to run only these tests again; nothing if there are none:
#       again=$(xtask/fresh/skipped.sh --again)
#       [ -z "$again" ] || cargo test --workspace --locked --no-fail-fast $again
#
# crates/ebm-testing/src/needs.rs writes the records, in skipped-tests of the target folder. Records older than their test program are ignored.
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
  # libtest names no test when it runs in a single thread.
  case " ${tests[*]} " in *" main "*) echo "${programs[*]}" ;; *) echo "${programs[*]} -- --exact ${tests[*]}" ;; esac
fi
