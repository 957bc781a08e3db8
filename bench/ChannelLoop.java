package sealberg.bridge;

import java.util.List;
import sealberg.bridge.ScanMessages.ScanPlan;

/**
 * The same requests from Java to Python by the channel and by py4j's callbacks, timed.
 *
 * <p>Both sides encode the request, decode the answer into its record, and are answered by the same Python code: the
 * way between is what differs. In this package because the channel is open to no other.
 */
public final class ChannelLoop {
  private ChannelLoop() {}

  /** Python, as py4j shows it to Java. */
  public interface Callback {
    String answer(String request);
  }

  public record Echo(String text) implements Request.OfRead<Echoed> {}

  public record Echoed(String text) implements Message {}

  public record StoredPlan() implements Request.OfRead<ScanPlan> {}

  /** Nanoseconds for each of `times` calls; `length` is of the text of an echo, or 0 for the plan. */
  public static long byChannel(String path, String token, int length, int times) {
    PythonBackend backend = new PythonBackend(path, token, () -> "");
    long spent = 0;
    if (length == 0) {
      spent = timed(times, () -> plan(PythonBridge.call(backend, "bench", new StoredPlan())));
    } else {
      String text = "x".repeat(length);
      spent = timed(times, () -> echo(text, PythonBridge.call(backend, "bench", new Echo(text))));
    }
    backend.closeIdle();
    return spent;
  }

  public static long byPy4j(Callback python, int length, int times) {
    if (length == 0) {
      return timed(times, () -> plan(called(python, new StoredPlan())));
    }
    String text = "x".repeat(length);
    return timed(times, () -> echo(text, called(python, new Echo(text))));
  }

  @SuppressWarnings("unchecked")
  private static <A> A called(Callback python, Request<A> request) {
    var call = new CallMessages.Call("bench", request.verb(), MessageCodec.write(request));
    var answer = MessageCodec.parsed(python.answer(MessageCodec.write(call).toString()));
    return (A) MessageCodec.read(answer.get("ok"), request.answer(), "the answer");
  }

  private static long timed(int times, Runnable call) {
    long began = System.nanoTime();
    for (int i = 0; i < times; i++) {
      call.run();
    }
    return (System.nanoTime() - began) / times;
  }

  private static void plan(ScanPlan plan) {
    check(plan.files().size() == 10_000, plan);
  }

  private static void echo(String sent, Echoed found) {
    check(sent.equals(found.text()), List.of(sent, found));
  }

  private static void check(boolean right, Object found) {
    if (!right) {
      throw new IllegalStateException("another answer than expected: " + found);
    }
  }
}
