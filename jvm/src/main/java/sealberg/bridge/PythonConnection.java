package sealberg.bridge;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import sealberg.bridge.CallMessages.Failure;
import sealberg.bridge.CallMessages.Hello;
import sealberg.bridge.CallMessages.Welcome;

/**
 * One connection to Python: a Unix domain socket, frames of JSON, one request at a time.
 *
 * <pre>
 *   hello    {"protocol": 2, "token": ...}  ──>  {"protocol": 2, ...}
 *   request  {...}                          ──>  {"ok": ...}  or  {"error": ...}
 *   frame    four bytes, the length of what follows; then as many bytes of UTF-8
 * </pre>
 *
 * A blocking channel closes itself when its thread is interrupted, and a commit must not be given
 * up half-way. So the channel does not block: a selector waits, and this class decides what an
 * interrupt means.
 */
final class PythonConnection implements Closeable {
  static final int PROTOCOL = 3;
  private static final int BUFFER_BYTES = 1 << 16;

  private final SocketChannel channel;
  private final Selector selector;
  private final SelectionKey key;
  private final ByteBuffer buffer = ByteBuffer.allocateDirect(BUFFER_BYTES);

  private PythonConnection(SocketChannel channel, Selector selector) throws IOException {
    this.channel = channel;
    this.selector = selector;
    channel.configureBlocking(false);
    this.key = channel.register(selector, 0);
  }

  /** Connects and says hello. */
  static PythonConnection open(String path, String token, boolean interruptible)
      throws IOException {
    Selector selector = Selector.open();
    SocketChannel channel;
    try {
      channel = connected(path, interruptible);
    } catch (IOException | RuntimeException error) {
      selector.close();
      throw error;
    }
    PythonConnection connection = new PythonConnection(channel, selector);
    try {
      JsonNode answer = connection.call(new Hello(PROTOCOL, token), interruptible);
      if (answer.has("error")) {
        throw new IOException(MessageCodec.read(answer.get("error"), Failure.class).text());
      }
      Welcome welcome = MessageCodec.read(answer, Welcome.class);
      if (welcome.protocol() != PROTOCOL) {
        throw new IOException(
            "Python speaks protocol " + welcome.protocol() + " and the jar " + PROTOCOL);
      }
      return connection;
    } catch (IOException | RuntimeException error) {
      connection.close();
      throw error;
    }
  }

  private static SocketChannel connected(String path, boolean interruptible) throws IOException {
    boolean interrupted = !interruptible && Thread.interrupted();
    try {
      while (true) {
        SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX);
        try {
          channel.connect(UnixDomainSocketAddress.of(path));
          return channel;
        } catch (ClosedByInterruptException error) {
          if (interruptible) {
            throw error;
          }
          interrupted |= Thread.interrupted(); // nothing was sent yet: once more
        } catch (IOException error) {
          channel.close();
          throw error;
        }
      }
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  /**
   * The answer to one request. An interrupt ends an interruptible call with a
   * ClosedByInterruptException; any other call goes on to its end, and the thread is still
   * interrupted afterwards. After an exception, this connection is of no use.
   */
  JsonNode call(Message request, boolean interruptible) throws IOException {
    Interrupts interrupts = new Interrupts(interruptible);
    try {
      send(MessageCodec.JSON.writeValueAsBytes(MessageCodec.write(request)), interrupts);
      return MessageCodec.parsed(receive(interrupts));
    } finally {
      interrupts.restore();
    }
  }

  private void send(byte[] payload, Interrupts interrupts) throws IOException {
    buffer.clear().putInt(payload.length);
    int sent = 0;
    do {
      int size = Math.min(buffer.remaining(), payload.length - sent);
      buffer.put(payload, sent, size).flip();
      sent += size;
      while (buffer.hasRemaining()) {
        if (channel.write(buffer) == 0) {
          await(SelectionKey.OP_WRITE, interrupts);
        }
      }
      buffer.clear();
    } while (sent < payload.length);
  }

  private byte[] receive(Interrupts interrupts) throws IOException {
    fill(Integer.BYTES, interrupts);
    byte[] payload = new byte[buffer.getInt()];
    int received = 0;
    while (received < payload.length) {
      fill(Math.min(BUFFER_BYTES, payload.length - received), interrupts);
      int size = buffer.remaining();
      buffer.get(payload, received, size);
      received += size;
    }
    return payload;
  }

  /**
   * Some bytes in the buffer, ready to be taken: all of them for a length, at least one of a
   * payload.
   */
  private void fill(int most, Interrupts interrupts) throws IOException {
    buffer.clear().limit(most);
    do {
      int found = channel.read(buffer);
      if (found < 0) {
        throw new EOFException("Python ended the connection");
      }
      if (found == 0) {
        await(SelectionKey.OP_READ, interrupts);
      }
    } while (buffer.position() == 0 || most == Integer.BYTES && buffer.hasRemaining());
    buffer.flip();
  }

  private void await(int operation, Interrupts interrupts) throws IOException {
    key.interestOps(operation);
    interrupts.check();
    selector.select(); // returns at once if the thread is interrupted
    selector.selectedKeys().clear();
    interrupts.check();
  }

  @Override
  public void close() {
    try (channel;
        selector) {
      key.cancel();
    } catch (IOException error) {
      // It is not used any more.
    }
  }

  /** What an interrupt does to a call. */
  private static final class Interrupts {
    private final boolean end;
    private boolean seen;

    Interrupts(boolean end) {
      this.end = end;
    }

    void check() throws ClosedByInterruptException {
      if (Thread.interrupted()) {
        seen = true;
        if (end) {
          throw new ClosedByInterruptException();
        }
      }
    }

    void restore() {
      if (seen) {
        Thread.currentThread().interrupt();
      }
    }
  }
}
