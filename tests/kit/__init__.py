"""What several test modules share: conformance suites, servers, and third-party programs."""
