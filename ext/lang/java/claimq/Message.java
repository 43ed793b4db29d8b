package claimq;

import java.nio.charset.StandardCharsets;
import java.util.Map;

/** What was submitted; row has all columns of the claim that took it. */
public class Message {
  public final Map<String, Object> row;
  public final Object payload;

  Message(Map<String, Object> row) {
    this.row = row;
    payload = row.get("payload");
  }

  /** The payload as text. */
  public String text() {
    return payload instanceof byte[]
        ? new String((byte[]) payload, StandardCharsets.UTF_8)
        : String.valueOf(payload);
  }

  /** The payload, which is JSON, as Json.read() reads it. */
  public Object json() {
    return Json.read(text());
  }

  /** The payload, as your own JSON library reads it. */
  public <T> T json(Json.Convert<String, T> read) throws Exception {
    return read.apply(text());
  }

  /** Its headers; an empty map if it has none. */
  @SuppressWarnings("unchecked")
  public Map<String, Object> headers() {
    Object headers = row.get("headers");
    return headers == null ? Map.of()
        : (Map<String, Object>) Json.read((String) headers);
  }

  long number(String column) {
    return ((Number) row.get(column)).longValue();
  }
}
