package sealberg;

/** A data file is not what was written: altered, cut, swapped or in the clear. */
public class SealedFileException extends RuntimeException {
  public SealedFileException(String message) {
    super(message);
  }

  public SealedFileException(String message, Throwable cause) {
    super(message, cause);
  }
}
