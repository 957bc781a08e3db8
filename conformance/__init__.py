"""The vectors as a test for any implementation; README.md is the page for other projects."""
