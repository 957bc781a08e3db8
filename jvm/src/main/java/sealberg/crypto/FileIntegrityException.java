package sealberg.crypto;

/** A data file is not what was written: altered, cut, swapped or in the clear. */
public class FileIntegrityException extends RuntimeException {
  private static final long serialVersionUID = 1;

  public FileIntegrityException(String message) {
    super(message);
  }

  public FileIntegrityException(String message, Throwable cause) {
    super(message, cause);
  }
}
