package claimq;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * As much JSON as claimq needs, because it brings no library for it: maps,
 * lists, text, numbers, booleans and null.  For objects of your own use the
 * library of your program, and give claimq its text.
 */
public final class Json {
  /** A function that may throw: your own library's way to write or to read. */
  public interface Convert<A, B> {
    B apply(A value) throws Exception;
  }

  private static final Pattern NUMBER = Pattern.compile(
      "-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?");
  private static final String ESCAPED = "\"\\/bfnrt";
  private static final String MEANT = "\"\\/\b\f\n\r\t";

  private final String text;
  private int at;

  private Json(String text) {
    this.text = text;
  }

  /** A Map, Iterable, array of objects, text, number, boolean or null. */
  public static String write(Object value) {
    StringBuilder out = new StringBuilder();
    write(value, out);
    return out.toString();
  }

  /**
   * What a text says: a Map, List, String, Long (BigInteger, if it is too
   * large for that), Double, Boolean or null.
   */
  public static Object read(String text) {
    Json json = new Json(text);
    Object value = json.value();
    if (json.next() != 0) {
      throw json.bad();
    }
    return value;
  }

  private static void write(Object value, StringBuilder out) {
    if (value instanceof CharSequence) {
      quote(value.toString(), out);
    } else if (value instanceof Map) {
      char before = '{';
      for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
        quote((String) entry.getKey(), out.append(before));
        write(entry.getValue(), out.append(':'));
        before = ',';
      }
      out.append(before == '{' ? "{}" : "}");
    } else if (value instanceof Iterable) {
      char before = '[';
      for (Object one : (Iterable<?>) value) {
        write(one, out.append(before));
        before = ',';
      }
      out.append(before == '[' ? "[]" : "]");
    } else if (value instanceof Object[]) {
      write(Arrays.asList((Object[]) value), out);
    } else if (value == null || value instanceof Boolean
        || value instanceof Number
            && NUMBER.matcher(value.toString()).matches()) {
      out.append(value);
    } else {
      throw new IllegalArgumentException("claimq has no JSON for "
          + (value instanceof Number ? value : "a " + value.getClass()
              .getName()) + ": give the text of a JSON library");
    }
  }

  private static void quote(String text, StringBuilder out) {
    out.append('"');
    for (char c : text.toCharArray()) {
      if (c == '"' || c == '\\') {
        out.append('\\').append(c);
      } else if (c < ' ') {
        out.append(String.format("\\u%04x", (int) c));
      } else {
        out.append(c);
      }
    }
    out.append('"');
  }

  private IllegalArgumentException bad() {
    return new IllegalArgumentException("this is no JSON: character " + at
        + " of " + text.substring(0, Math.min(60, text.length())));
  }

  /** The next character that is no white space; 0 at the end. */
  private char next() {
    while (at < text.length() && " \t\n\r".indexOf(text.charAt(at)) >= 0) {
      at++;
    }
    return at < text.length() ? text.charAt(at) : 0;
  }

  private boolean skip(char c) {
    boolean here = next() == c;
    at += here ? 1 : 0;
    return here;
  }

  private void expect(char c) {
    if (!skip(c)) {
      throw bad();
    }
  }

  private Object value() {
    switch (next()) {
      case '{':
        return object();
      case '[':
        return array();
      case '"':
        return string();
      case 't':
        return word("true", true);
      case 'f':
        return word("false", false);
      case 'n':
        return word("null", null);
      default:
        return number();
    }
  }

  private Map<String, Object> object() {
    Map<String, Object> all = new LinkedHashMap<>();
    expect('{');
    if (!skip('}')) {
      do {
        next();
        String name = string();
        expect(':');
        all.put(name, value());
      } while (skip(','));
      expect('}');
    }
    return all;
  }

  private List<Object> array() {
    List<Object> all = new ArrayList<>();
    expect('[');
    if (!skip(']')) {
      do {
        all.add(value());
      } while (skip(','));
      expect(']');
    }
    return all;
  }

  private String string() {
    StringBuilder out = new StringBuilder();
    expect('"');
    for (; at < text.length() && text.charAt(at) != '"'; at++) {
      char c = text.charAt(at);
      if (c < ' ') {
        throw bad();
      }
      out.append(c == '\\' ? escaped() : c);
    }
    if (at++ >= text.length()) {
      throw bad();
    }
    return out.toString();
  }

  private char escaped() {
    char c = ++at < text.length() ? text.charAt(at) : 0;
    if (c == 'u' && at + 4 < text.length()
        && text.substring(at + 1, at + 5).matches("[0-9a-fA-F]{4}")) {
      at += 4;
      return (char) Integer.parseInt(text.substring(at - 3, at + 1), 16);
    }
    if (ESCAPED.indexOf(c) < 0) {
      throw bad();
    }
    return MEANT.charAt(ESCAPED.indexOf(c));
  }

  private Object word(String word, Object meaning) {
    if (!text.startsWith(word, at)) {
      throw bad();
    }
    at += word.length();
    return meaning;
  }

  private Object number() {
    Matcher found = NUMBER.matcher(text).region(at, text.length());
    if (!found.lookingAt()) {
      throw bad();
    }
    at = found.end();
    String digits = found.group();
    if (found.group(2) != null || found.group(3) != null) {
      return Double.valueOf(digits);
    }
    return digits.length() < 19 ? (Object) Long.valueOf(digits)
        : fitting(new BigInteger(digits));
  }

  private static Object fitting(BigInteger number) {
    return number.bitLength() < 64 ? (Object) number.longValue() : number;
  }
}
