package sealberg.sql;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.junit.jupiter.api.Test;

/** Statements of Iceberg's DDL as calls of procedures, word by word. */
class StatementParserTest {
  private static String call(String statement) {
    return StatementParser.parse(statement).call("prod", List.of("hr", "pay"));
  }

  private static String expected(String procedure, String arguments) {
    return "CALL `prod`.system." + procedure + "(table => '`hr`.`pay`', " + arguments + ")";
  }

  @Test
  void partitionFields() {
    assertEquals(
        expected("add_partition_field", "transform => 'bucket(16, id)', name => 'shard'"),
        call("ALTER TABLE hr.pay ADD PARTITION FIELD bucket(16, id) AS shard;"));
    assertEquals(
        expected("drop_partition_field", "transform => 'days(ts)'"),
        call("alter /* odd */ table pay -- comment\n drop partition field days( ts )"));
    assertEquals(
        expected("replace_partition_field", "transform => 'a.b', with => '`c d`'"),
        call("ALTER TABLE t REPLACE PARTITION FIELD a.b WITH `c d`"));
    assertEquals(
        expected("add_partition_field", "transform => 'bucket(16, `c,d`.e)'"),
        call("ALTER TABLE t ADD PARTITION FIELD bucket /* of */ (16,-- \n `c,d` . e);;"));
  }

  @Test
  void writeOrder() {
    assertEquals(
        expected(
            "set_write_order",
            "distribution_mode => 'range', order => array('a DESC NULLS LAST', 'bucket(4, b)"
                + " ASC')"),
        call("ALTER TABLE t WRITE ORDERED BY a DESC NULLS LAST, bucket(4, b) ASC"));
    assertEquals(
        expected("set_write_order", "order => array('a')"),
        call("ALTER TABLE t WRITE LOCALLY ORDERED BY (a)"));
    assertEquals(
        expected("set_write_order", "distribution_mode => 'hash', order => array('a')"),
        call("ALTER TABLE t WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY a"));
    assertEquals(
        expected("set_write_order", "distribution_mode => 'none', order => array()"),
        call("ALTER TABLE t WRITE UNORDERED"));
    assertEquals(
        expected("set_write_order", "order => array('a.b DESC NULLS FIRST', '`c d` ASC')"),
        call("alter table t write locally ordered by a.b desc/**/nulls first, `c d`\nasc")
            .replace("desc nulls first", "DESC NULLS FIRST")
            .replace("asc'", "ASC'"));
  }

  @Test
  void branchesAndTags() {
    assertEquals(
        expected(
            "create_ref",
            "kind => 'branch', name => 'b', create => true, replace => true, if_not_exists =>"
                + " false, snapshot_id => 7L, max_ref_age_ms => 86400000L, min_snapshots_to_keep =>"
                + " 3L, max_snapshot_age_ms => 3600000L"),
        call(
            "ALTER TABLE t CREATE OR REPLACE BRANCH b AS OF VERSION 7 RETAIN 1 DAYS"
                + " WITH SNAPSHOT RETENTION 3 SNAPSHOTS 1 HOURS"));
    assertEquals(
        expected("drop_ref", "kind => 'tag', name => 'v', if_exists => true"),
        call("ALTER TABLE t DROP TAG IF EXISTS v"));
  }

  @Test
  void namesThatNeedEscapesAreSentAsHex() {
    assertEquals(
        expected(
            "drop_ref",
            "kind => 'tag', name => CAST(X'6974277320c3bc' AS STRING), if_exists => false"),
        call("ALTER TABLE t DROP TAG `it's ü`"));
  }

  @Test
  void aNameOfDigitsStandsInBackticks() {
    for (String statement :
        List.of(
            "CREATE TAG 123", "DROP TAG 123", "CREATE BRANCH 1", "ADD PARTITION FIELD a AS 1")) {
      assertThrows(
          ParseException.class,
          () -> StatementParser.parse("ALTER TABLE t " + statement),
          statement);
    }
    assertEquals(
        expected("drop_ref", "kind => 'tag', name => '123', if_exists => false"),
        call("ALTER TABLE t DROP TAG `123`"));
    assertEquals(
        expected("drop_ref", "kind => 'tag', name => '1a', if_exists => false"),
        call("ALTER TABLE t DROP TAG 1a"));
  }

  @Test
  void otherStatementsAreNotLookedAt() {
    for (String other :
        List.of(
            "SELECT 'ALTER TABLE t WRITE UNORDERED'",
            "ALTER TABLE t SET TBLPROPERTIES ('a' = 'WRITE BRANCH TAG')",
            "ALTER TABLE t ADD COLUMN tag string",
            "ALTER TABLE t DROP COLUMN branch",
            "ALTER VIEW branch AS SELECT 1",
            "ALTER TABLE",
            "")) {
      assertNull(StatementParser.parse(other), other);
    }
  }

  @Test
  void aMistakeHasItsPlace() {
    ParseException error =
        assertThrows(
            ParseException.class,
            () -> StatementParser.parse("ALTER TABLE t\n  REPLACE PARTITION FIELD a AS b"));
    assertEquals(2, error.start().line().get());
    assertEquals(28, error.start().startPosition().get());
  }

  @Test
  void anErrorOfAnotherParserPointsAtItsWord() {
    Tokens tokens = new Tokens("ALTER TABLE t\n  ADD PARTITION FIELDS id");
    ParseException error = tokens.errorAt(2, 16, "mismatched input");
    assertEquals("'FIELDS'", error.getMessageParameters().get("error"));
    assertEquals(": mismatched input", error.getMessageParameters().get("hint"));
    assertEquals(2, error.line().get());
    assertEquals(16, error.startPosition().get());
    assertEquals("end of input", tokens.errorAt(3, 0, "").getMessageParameters().get("error"));
  }
}
