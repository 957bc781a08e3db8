package sealberg.read;

import java.io.IOException;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.roaringbitmap.RoaringBitmap;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;
import sealberg.crypto.FileIntegrityException;
import sealberg.crypto.FooterKeyFactory;
import sealberg.worker.PythonFileReader;

/**
 * The base of the readers in batches and row by row: opens the files in turn, and adds the name of
 * the file to errors.
 */
abstract class FileSplitReader<T> implements PartitionReader<T> {
  final ReaderFactory factory;
  private final FileSplit[] files;
  private int next = 0;
  FileSplit file;
  private Iterator<?> values;
  private PythonFileReader whole;
  RoaringBitmap deleted;
  final boolean showsDeleted;
  boolean numbered; // the query or a delete needs the positions of rows
  boolean indexed; // Spark's reader gives positions; otherwise they are counted
  long nextPosition; // of the next row, where rows are counted
  private long endPosition; // after the last row, where rows are counted

  FileSplitReader(ReaderFactory factory, FileSplit[] files) {
    this.factory = factory;
    this.files = files;
    this.showsDeleted = factory.showsDeleted();
  }

  @Override
  public boolean next() {
    try {
      while (true) {
        while (values != null && values.hasNext()) {
          if (whole != null ? given(values.next()) : take(values.next())) {
            return true;
          }
        }
        checkCount();
        if (next == files.length) {
          return false;
        }
        open(files[next++]);
      }
    } catch (Throwable error) {
      throw FooterKeyFactory.translated(file, error);
    }
  }

  private void open(FileSplit opened) throws IOException {
    file = opened;
    close();
    if (opened.python() != null && opened.python().verb().readsRows()) {
      whole = new PythonFileReader(opened, factory.required(), factory.conf().value().value());
      values = CollectionConverters.asScala(inTurn(whole));
      return;
    }
    deleted = factory.deletes() ? opened.deletedRows(factory.conf().value().value()) : null;
    numbered = factory.numbered() || deleted != null;
    indexed = numbered && factory.indexed() != null;
    if (numbered && !indexed) {
      FileSplit.Span rows = opened.rows(factory.conf().value().value());
      nextPosition = rows.first();
      endPosition = rows.end();
    }
    values = (indexed ? factory.indexed() : factory.plain()).open(opened);
  }

  /** With a wrong count, deletes by position would delete other rows. */
  private void checkCount() {
    if (values != null && whole == null && numbered && !indexed && nextPosition != endPosition) {
      throw new FileIntegrityException(
          file
              + ": read up to row "
              + nextPosition
              + ", expected row "
              + endPosition
              + ": the row count differs from the manifest");
    }
  }

  /** False if no row is left. */
  abstract boolean take(Object read);

  /** The batches of a file that Python reads, as this reader returns them; then a single batch. */
  abstract java.util.Iterator<?> inTurn(PythonFileReader batches);

  abstract boolean given(Object made);

  @Override
  public void close() {
    try {
      if (values instanceof AutoCloseable open) {
        open.close();
      }
      if (whole != null) {
        whole.close();
      }
      values = null;
      whole = null;
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }
}
