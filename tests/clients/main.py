"""Runs the tests; `run` beside it makes what they need first."""

import sys

from harness.suite import main

sys.exit(main(sys.argv[1:]))
