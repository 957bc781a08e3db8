package sealberg.bridge;

import java.util.Map;

/** A KMS client that is a class of Java; Python's {@code kms}. */
public final class KmsMessages {
  private KmsMessages() {}

  /** What the client is asked to do; NONE if there is nothing to do at the time. */
  public enum KmsAct {
    NONE,
    WRAP,
    UNWRAP,
    GENERATE
  }

  /** The class, and the properties of the catalog for its initialize, which can be secrets. */
  public record KmsDescription(String impl, Map<String, String> properties) implements Message {
    @Override
    public String toString() {
      return "KmsDescription[" + impl + "]";
    }
  }

  /** The first request for the KMS of a catalog. */
  public record DescribeKms() implements Request<KmsDescription> {}

  /**
   * What the client returned for a job.
   *
   * @param key of unwrap and generate
   * @param wrapped of wrap and generate
   * @param failure the class of the exception and the line that threw it; its message could hold a
   *     key
   */
  public record KmsOutcome(@Nullable byte[] key, @Nullable byte[] wrapped, @Nullable String failure)
      implements Message {
    @Override
    public String toString() {
      return "KmsOutcome"; // and no key
    }
  }

  public record KmsJob(KmsAct act, @Nullable String masterKeyId, @Nullable byte[] content)
      implements Message {
    @Override
    public String toString() {
      return "KmsJob[" + act + "]"; // and no key
    }
  }

  /** The outcome of the job before; the answer is the next job, and may take seconds. */
  public record ServeKms(@Nullable KmsOutcome outcome) implements Request<KmsJob> {}
}
