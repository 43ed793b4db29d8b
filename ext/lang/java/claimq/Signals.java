package claimq;

import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;

/**
 * Has signals call something, until it is closed; then what handled them before
 * does again.
 *
 * <p>The class that does it is in every virtual machine but not in the
 * standard, and is looked up by its name.  Where it is missing, or where
 * signals are not ours (java -Xrs), nothing happens.
 */
final class Signals implements AutoCloseable {
  private final String[] names;
  private final List<Object> before = new ArrayList<>();

  Signals(Runnable action, String... names) {
    this.names = names;
    try {
      Class<?> type = Class.forName("sun.misc.SignalHandler");
      Object handler = Proxy.newProxyInstance(type.getClassLoader(),
          new Class<?>[] {type}, (proxy, method, values) -> {
            action.run();
            return null;
          });
      for (String name : names) {
        before.add(handle(name, handler));
      }
    } catch (ReflectiveOperationException missing) {
      // There is stop().
    }
  }

  /** Sets the handler of a signal; returns the one before. */
  private static Object handle(String name, Object handler)
      throws ReflectiveOperationException {
    Class<?> signal = Class.forName("sun.misc.Signal");
    Class<?> type = Class.forName("sun.misc.SignalHandler");
    return signal.getMethod("handle", signal, type).invoke(null,
        signal.getConstructor(String.class).newInstance(name), handler);
  }

  @Override
  public void close() {
    try {
      for (int i = 0; i < before.size(); i++) {
        handle(names[i], before.get(i));
      }
    } catch (ReflectiveOperationException missing) {
      throw new IllegalStateException(missing);
    }
  }
}
