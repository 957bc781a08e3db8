"""What several test modules share: conformance suites, servers started for tests, tools of other hands."""
