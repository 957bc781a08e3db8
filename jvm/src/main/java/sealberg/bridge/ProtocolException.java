package sealberg.bridge;

/**
 * A message that Python wrote differently: the jar and the Python package are of different
 * versions.
 */
public final class ProtocolException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  ProtocolException(String message) {
    super(message + ": the jar and the installed sealberg must be of one version");
  }
}
