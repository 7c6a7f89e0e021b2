#!/usr/bin/env bash
# 1,000 connections, then a healthy client beside those that crawl, stall and vanish. Prints its figures.
set -euo pipefail
python3 "$(dirname "${BASH_SOURCE[0]}")/load/load.py" "$KIST"
