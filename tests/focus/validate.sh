#!/usr/bin/env bash
# Write FOCUS rows as `ec2spawner report --focus` does and check them with focus-validator, the FinOps
# Foundation's own. It needs Python 3.12 or later: without one, nothing is checked, which is an error
# where CI is set.
set -euo pipefail
cd "$(dirname "$0")/../.."

for python in python3.12 python3.13 python3.14 python3; do
	if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then
		found=$python
		break
	fi
done
if [ -z "${found-}" ]; then
	if [ -n "${CI-}" ]; then
		echo 'the check of FOCUS rows needs Python 3.12 or later' >&2
		exit 1
	fi
	echo '** SKIPPED: the check of FOCUS rows needs Python 3.12 or later'
	exit 0
fi

venv=$PWD/.venv/focus
if [ ! -x "$venv/bin/focus-validator" ] || [ tests/focus/requirements.txt -nt "$venv/.done" ]; then
	"$found" -m venv --clear "$venv"
	"$venv/bin/python" -m pip install --quiet --requirement tests/focus/requirements.txt
	touch "$venv/.done"
fi

output=$(mktemp -d)
trap 'rm -rf "$output"' EXIT
python -m tests.focus.sample >"$output/rows.csv"
# The validator looks for its list of currencies below the current folder, and exits with 0
# whatever it finds. The rules of FOCUS 1.2 come with it: nothing is downloaded.
cd "$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
"$venv/bin/focus-validator" --data-file "$output/rows.csv" --validate-version 1.2.0.1 \
	--block-download --show-violations >"$output/report.txt" 2>&1 || {
	cat "$output/report.txt"
	exit 1
}
# An invoice may be absent where none was issued, which the validator cannot know.
failures=$(grep ': FAIL' "$output/report.txt" | grep -v '^❌ InvoiceId-C-005-C:' || true)
if [ -n "$failures" ] || ! grep -q ': PASS' "$output/report.txt"; then
	cat "$output/report.txt"
	exit 1
fi
echo "FOCUS 1.2: $(grep -c ': PASS' "$output/report.txt") rules pass, none fails"
