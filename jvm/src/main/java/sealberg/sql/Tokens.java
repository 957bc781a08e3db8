package sealberg.sql;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.antlr.v4.runtime.CharStreams;
import org.antlr.v4.runtime.CommonToken;
import org.antlr.v4.runtime.ParserRuleContext;
import org.antlr.v4.runtime.Token;
import org.antlr.v4.runtime.misc.Pair;
import org.apache.spark.sql.catalyst.parser.ParseException;
import scala.collection.immutable.Map$;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The words of a statement, read one after the other.
 *
 * <pre>
 *   ALTER TABLE hr.`odd name` ADD PARTITION FIELD bucket(16, id) -- comment
 *   word  word  word . quoted  word ...           word ( word , word )
 * </pre>
 *
 * A word that does not fit is a ParseException of Spark that points at it.
 */
final class Tokens {
  enum Kind {
    WORD,
    QUOTED,
    SYMBOL,
    END
  }

  /** A word, with its place in the text. */
  record Word(Kind kind, String text, int start, int end) {}

  private final String sql;
  private final List<Word> words;
  private int at;

  Tokens(String sql) {
    this.sql = sql;
    this.words = split(sql);
  }

  /**
   * Whether this is the first word of a text, whatever its case, behind white space and comments.
   */
  static boolean beginsWith(String sql, String word) {
    int at = 0;
    while (at < sql.length()) {
      int skipped = skip(sql, at);
      if (skipped == at) {
        return sql.regionMatches(true, at, word, 0, word.length());
      }
      at = skipped;
    }
    return false;
  }

  private static List<Word> split(String sql) {
    List<Word> words = new ArrayList<>();
    int at = 0;
    while (at < sql.length()) {
      int skipped = skip(sql, at);
      if (skipped > at) {
        at = skipped;
        continue;
      }
      char first = sql.charAt(at);
      int end = at + 1;
      if (first == '`') {
        end = quotedEnd(sql, at);
        words.add(new Word(Kind.QUOTED, unquoted(sql.substring(at, end)), at, end));
      } else if (isWord(first)) {
        while (end < sql.length() && isWord(sql.charAt(end))) {
          end++;
        }
        words.add(new Word(Kind.WORD, sql.substring(at, end), at, end));
      } else {
        words.add(new Word(Kind.SYMBOL, sql.substring(at, end), at, end));
      }
      at = end;
    }
    words.add(new Word(Kind.END, "end of input", sql.length(), sql.length()));
    return words;
  }

  /** Behind white space and comments. */
  private static int skip(String sql, int at) {
    if (Character.isWhitespace(sql.charAt(at))) {
      return at + 1;
    }
    if (sql.startsWith("--", at)) {
      int end = sql.indexOf('\n', at);
      return end < 0 ? sql.length() : end + 1;
    }
    if (sql.startsWith("/*", at)) {
      int end = sql.indexOf("*/", at + 2);
      return end < 0 ? sql.length() : end + 2;
    }
    return at;
  }

  private static boolean isWord(char one) {
    return Character.isLetterOrDigit(one) || one == '_';
  }

  private static int quotedEnd(String sql, int start) {
    int at = start + 1;
    while (at < sql.length()) {
      if (sql.charAt(at) == '`') {
        if (at + 1 >= sql.length() || sql.charAt(at + 1) != '`') {
          return at + 1;
        }
        at++;
      }
      at++;
    }
    return sql.length();
  }

  private static String unquoted(String quoted) {
    int end = quoted.length() > 1 && quoted.endsWith("`") ? quoted.length() - 1 : quoted.length();
    return quoted.substring(1, end).replace("``", "`");
  }

  // -- reading --------------------------------------------------------------------------------

  Word peek() {
    return words.get(at);
  }

  /** Whether the next words are these; if so, they are read. */
  boolean read(String... wanted) {
    for (int i = 0; i < wanted.length; i++) {
      if (at + i >= words.size() || !is(words.get(at + i), wanted[i])) {
        return false;
      }
    }
    at += wanted.length;
    return true;
  }

  private static boolean is(Word word, String wanted) {
    return (word.kind() == Kind.WORD || word.kind() == Kind.SYMBOL)
        && word.text().equalsIgnoreCase(wanted);
  }

  void expect(String... wanted) {
    for (String word : wanted) {
      if (!read(word)) {
        throw unexpected("expected " + word);
      }
    }
  }

  String identifier() {
    Word word = peek();
    if (word.kind() != Kind.WORD && word.kind() != Kind.QUOTED) {
      throw unexpected("expected a name");
    }
    at++;
    return word.text();
  }

  static boolean isNumber(Word word) {
    return word.kind() == Kind.WORD && word.text().chars().allMatch(Character::isDigit);
  }

  /** A new or old name of the user's: one of digits stands in backticks, as in Spark. */
  String name() {
    if (isNumber(peek())) {
      throw unexpected("expected a name, which stands in backticks if it has digits only");
    }
    return identifier();
  }

  /** hr.pay in its parts. */
  List<String> identifiers() {
    List<String> parts = new ArrayList<>(List.of(identifier()));
    while (read(".")) {
      parts.add(identifier());
    }
    return parts;
  }

  long number() {
    boolean negative = read("-");
    try {
      long found = Long.parseLong((negative ? "-" : "") + peek().text());
      at++;
      return found;
    } catch (NumberFormatException error) {
      throw unexpected("expected a whole number");
    }
  }

  /** The words from this one to the last word that was read, without the comments between them. */
  String textFrom(Word first) {
    StringBuilder text = new StringBuilder();
    Word before = null;
    for (Word word : words.subList(words.indexOf(first), at)) {
      boolean isApart =
          before != null
              && word.kind() != Kind.SYMBOL
              && (before.kind() != Kind.SYMBOL || before.text().matches("[,)]"));
      text.append(isApart ? " " : "").append(sql, word.start(), word.end());
      before = word;
    }
    return text.toString();
  }

  /** The statement ends here, with or without semicolons. */
  void expectEnd() {
    while (read(";")) {
      continue;
    }
    if (peek().kind() != Kind.END) {
      throw unexpected("expected the end of the statement");
    }
  }

  RuntimeException unexpected(String hint) {
    throw sealberg.bridge.PythonBridge.raised(error(peek(), hint));
  }

  /** The error of another parser, which points at the word at this place. */
  ParseException errorAt(int line, int position, String hint) {
    int start = position;
    for (String before : sql.lines().limit(line - 1L).toList()) {
      start += before.length() + 1;
    }
    int place = start;
    Word end = words.get(words.size() - 1);
    return error(words.stream().filter(one -> one.end() > place).findFirst().orElse(end), hint);
  }

  /** The error of a statement that is right and refused all the same. */
  ParseException notAllowed(String why) {
    return error("_LEGACY_ERROR_TEMP_0035", Map.of("message", why), words.get(0));
  }

  private ParseException error(Word word, String hint) {
    String shown = word.kind() == Kind.END ? word.text() : "'" + word.text() + "'";
    return error("PARSE_SYNTAX_ERROR", Map.of("error", shown, "hint", ": " + hint), word);
  }

  private ParseException error(String kind, Map<String, String> parameters, Word word) {
    return new ParseException(
        kind, Map$.MODULE$.from(CollectionConverters.asScala(parameters)), context(word));
  }

  /** What Spark takes the text, the line and the position from. */
  private ParserRuleContext context(Word word) {
    String before = sql.substring(0, word.start());
    CommonToken token =
        new CommonToken(
            new Pair<>(null, CharStreams.fromString(sql)),
            Token.MIN_USER_TOKEN_TYPE,
            Token.DEFAULT_CHANNEL,
            word.start(),
            Math.max(word.start(), word.end() - 1));
    token.setLine((int) before.chars().filter(one -> one == '\n').count() + 1);
    token.setCharPositionInLine(word.start() - (before.lastIndexOf('\n') + 1));
    ParserRuleContext context = new ParserRuleContext();
    context.start = token;
    context.stop = token;
    return context;
  }
}
