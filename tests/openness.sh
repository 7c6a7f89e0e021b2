#!/usr/bin/env bash
# The readers of cartridges that share no code with Kist, on cartridges written from the documentation.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/openness"
python3 -m unittest test_read_cartridge
