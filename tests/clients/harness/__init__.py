"""What the tests of real clients share: a server, places for files, programs, and demands."""
