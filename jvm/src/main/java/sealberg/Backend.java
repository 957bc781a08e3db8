package sealberg;

/** Python, as Java sees it: a verb and JSON in, JSON out. Errors come back as values, see {@link Bridge}. */
public interface Backend {
  String call(String verb, String arguments);
}
