package sealberg.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.Channels;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Frames to and from Python: four bytes of length, then JSON; against a server of this test. */
@Timeout(30)
class PythonConnectionTest {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String WELCOME = "{\"protocol\":" + PythonConnection.PROTOCOL + "}";

  private Path folder;
  private Path socket;
  private ServerSocketChannel server;

  /** What the server does with one connection. */
  private interface Answer {
    void run(DataInputStream in, DataOutputStream out) throws Exception;
  }

  @BeforeEach
  void listen() throws IOException {
    folder = Files.createTempDirectory("frames");
    socket = folder.resolve("python");
    server = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
    server.bind(UnixDomainSocketAddress.of(socket));
  }

  @AfterEach
  void close() throws IOException {
    server.close();
    Files.deleteIfExists(socket);
    Files.delete(folder);
  }

  private CompletableFuture<Void> serve(Answer answer) {
    return CompletableFuture.runAsync(
        () -> {
          try (SocketChannel peer = server.accept()) {
            answer.run(
                new DataInputStream(Channels.newInputStream(peer)),
                new DataOutputStream(Channels.newOutputStream(peer)));
          } catch (Exception error) {
            throw new IllegalStateException(error);
          }
        });
  }

  private static String read(DataInputStream in) throws IOException {
    return new String(in.readNBytes(in.readInt()), "UTF-8");
  }

  private static void write(DataOutputStream out, String text) throws IOException {
    byte[] payload = text.getBytes("UTF-8");
    out.writeInt(payload.length);
    out.write(payload);
  }

  private PythonConnection open() throws IOException {
    return PythonConnection.open(socket.toString(), "secret", true);
  }

  @Test
  void aConnectionSaysHelloWithTheToken() throws Exception {
    CompletableFuture<Void> served =
        serve(
            (in, out) -> {
              ObjectNode hello = (ObjectNode) JSON.readTree(read(in));
              assertEquals("secret", hello.get("token").asText());
              assertEquals(PythonConnection.PROTOCOL, hello.get("protocol").asInt());
              write(out, WELCOME);
            });
    open().close();
    served.get();
  }

  @Test
  void framesLargerThanTheBufferArriveWhole() throws Exception {
    CompletableFuture<Void> served =
        serve(
            (in, out) -> {
              read(in);
              write(out, WELCOME);
              for (int frame = 0; frame < 4; frame++) {
                write(out, read(in));
              }
            });
    try (PythonConnection connection = open()) {
      for (int size : new int[] {0, (1 << 16) - 1, 1 << 16, 3_000_001}) {
        ObjectNode request = JSON.createObjectNode().put("text", "é".repeat(size));
        assertEquals(request, connection.call(request, true), size + " characters");
      }
    }
    served.get();
  }

  @Test
  void aPythonOfAnotherProtocolIsRefused() throws Exception {
    CompletableFuture<Void> served =
        serve(
            (in, out) -> {
              read(in);
              write(out, "{\"protocol\":" + (PythonConnection.PROTOCOL + 1) + "}");
            });
    IOException refusal = assertThrows(IOException.class, this::open);
    assertTrue(refusal.getMessage().contains("protocol"), refusal.getMessage());
    served.get();
  }

  @Test
  void anEndInTheMiddleOfAFrameIsAnError() throws Exception {
    CompletableFuture<Void> served =
        serve(
            (in, out) -> {
              read(in);
              write(out, WELCOME);
              read(in);
              out.writeInt(100);
              out.write(new byte[10]);
            });
    try (PythonConnection connection = open()) {
      assertThrows(EOFException.class, () -> connection.call(JSON.createObjectNode(), true));
    }
    served.get();
  }

  @Test
  void anInterruptEndsAReadAndNotACommit() throws Exception {
    for (boolean interruptible : new boolean[] {true, false}) {
      CompletableFuture<Thread> caller = new CompletableFuture<>();
      CompletableFuture<Void> served =
          serve(
              (in, out) -> {
                read(in);
                write(out, WELCOME);
                read(in);
                caller.get().interrupt();
                if (!interruptible) {
                  write(out, "{\"ok\":1}");
                }
              });
      try (PythonConnection connection = open()) {
        caller.complete(Thread.currentThread());
        if (interruptible) {
          assertThrows(
              ClosedByInterruptException.class,
              () -> connection.call(JSON.createObjectNode(), true));
        } else {
          assertEquals(1, connection.call(JSON.createObjectNode(), false).get("ok").asInt());
        }
        assertTrue(Thread.interrupted(), "the thread is still interrupted afterwards");
      }
      served.get();
    }
  }
}
