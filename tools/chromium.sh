#!/bin/sh
# The page's tests open it in a real browser. Install Debian's where it is missing and we may; say so loudly where not.
set -u
for name in chromium chromium-browser google-chrome; do
    command -v "$name" > /dev/null 2>&1 && exit 0
done
if command -v apt-get > /dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
    echo "Installing chromium for the tests of the report's page."
    apt-get install -y --no-install-recommends chromium > /dev/null 2>&1 ||
        { apt-get update > /dev/null 2>&1 && apt-get install -y --no-install-recommends chromium > /dev/null 2>&1; }
fi
if ! command -v chromium > /dev/null 2>&1; then
    echo "************************************************************************************" >&2
    echo "* No chromium here: the tests of the report's page in a browser will NOT run.      *" >&2
    echo "* Install it (Debian: apt-get install chromium) to have them run.                  *" >&2
    echo "************************************************************************************" >&2
fi
exit 0
