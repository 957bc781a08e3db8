package sealberg.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
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
  private static final String WELCOME = welcome(PythonConnection.PROTOCOL);

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

  private static String welcome(int protocol) {
    return JSON.createObjectNode().put("protocol", protocol).put("sealberg", "1").toString();
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

  private PythonConnection open(String token, boolean interruptible) throws IOException {
    return PythonConnection.open(socket.toString(), token, interruptible);
  }

  @Test
  void aConnectionSaysHelloWithTheToken() throws Exception {
    CompletableFuture<Void> served =
        serve(
            (in, out) -> {
              JsonNode hello = JSON.readTree(read(in));
              assertEquals("secret", hello.get("token").asText());
              assertEquals(PythonConnection.PROTOCOL, hello.get("protocol").asInt());
              write(out, WELCOME);
            });
    open("secret", true).close();
    served.get();
  }

  @Test
  void framesLargerThanTheBufferArriveWholeBothWays() throws Exception {
    for (int size : new int[] {0, (1 << 16) - 40, 1 << 16, 3_000_001}) {
      CompletableFuture<Void> served =
          serve(
              (in, out) -> {
                ObjectNode error = JSON.createObjectNode().put("kind", "error");
                error.set("text", JSON.readTree(read(in)).get("token"));
                write(out, JSON.createObjectNode().set("error", error).toString());
              });
      String token = "é".repeat(size);
      IOException answer = assertThrows(IOException.class, () -> open(token, true));
      assertEquals(token, answer.getMessage(), size + " characters");
      served.get();
    }
  }

  @Test
  void aPythonOfAnotherProtocolIsRefused() throws Exception {
    CompletableFuture<Void> served =
        serve(
            (in, out) -> {
              read(in);
              write(out, welcome(PythonConnection.PROTOCOL + 1));
            });
    IOException refusal = assertThrows(IOException.class, () -> open("secret", true));
    assertTrue(refusal.getMessage().contains("protocol"), refusal.getMessage());
    served.get();
  }

  @Test
  void anEndInTheMiddleOfAFrameIsAnError() throws Exception {
    for (int sent : new int[] {0, 10, 99}) {
      CompletableFuture<Void> served =
          serve(
              (in, out) -> {
                read(in);
                out.writeInt(100);
                out.write(new byte[sent]);
              });
      assertThrows(EOFException.class, () -> open("secret", true));
      served.get();
    }
  }

  @Test
  void anInterruptEndsACallUnlessItMustNot() throws Exception {
    Thread caller = Thread.currentThread();
    for (boolean interruptible : new boolean[] {true, false}) {
      CompletableFuture<Void> served =
          serve(
              (in, out) -> {
                read(in);
                caller.interrupt();
                if (interruptible) {
                  assertEquals(-1, in.read(), "the connection is closed");
                } else {
                  write(out, WELCOME);
                }
              });
      if (interruptible) {
        assertThrows(ClosedByInterruptException.class, () -> open("secret", true));
        Thread.interrupted();
      } else {
        open("secret", false).close();
        assertTrue(Thread.interrupted(), "the thread is still interrupted afterwards");
      }
      served.get();
    }
  }
}
