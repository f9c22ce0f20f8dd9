import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Drives an A2A server with the Java SDK for 0.3 and reports, case by case, whether it kept its promises.
 *
 * <pre>Main BASE_URL [BINDING [CASE]]</pre>
 */
public final class Main {
    private static final int CASE_SECONDS_MAX = 25;
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    public static void main(String[] given) throws Exception {
        // Libraries write there as well, and results alone go to standard output.
        System.setOut(System.err);
        String base = given[0].replaceAll("/$", "");
        List<String> bindings = given.length > 1 ? List.of(given[1]) : List.of("JSONRPC", "HTTP+JSON", "GRPC");
        ExecutorService pool = Executors.newCachedThreadPool();
        var runs = bindings.stream().map(one -> pool.submit(() -> runBinding(pool, base, one, given))).toList();
        for (var run : runs) {
            run.get();
        }
        // Channels and clients of the SDK keep threads.
        Runtime.getRuntime().halt(0);
    }

    private static void runBinding(ExecutorService pool, String base, String binding, String[] given) {
        Client client = null;
        String failure = null;
        try {
            client = new Client(base, "", binding);
        } catch (Exception error) {
            failure = "no client could be made: " + error;
        }
        for (var one : Cases.ALL.entrySet()) {
            if (given.length > 2 && !given[2].equals(one.getKey())) {
                continue;
            }
            String[] result = failure == null ? outcomeOf(pool, client, one.getValue()) : new String[] {"FAIL", failure};
            report(result[0], binding, one.getKey(), result[1]);
        }
    }

    private static String[] outcomeOf(ExecutorService pool, Client client, Cases.Case one) {
        var running = pool.submit(() -> {
            try {
                one.run(client);
                return new String[] {"ok", ""};
            } catch (Cases.NotExpressible why) {
                return new String[] {"n/a", why.getMessage()};
            } catch (AssertionError why) {
                return new String[] {"FAIL", why.getMessage()};
            } catch (Throwable error) {
                return new String[] {"FAIL", error + (error.getCause() == null ? "" : ", cause " + error.getCause())};
            }
        });
        try {
            return running.get(CASE_SECONDS_MAX, TimeUnit.SECONDS);
        } catch (TimeoutException late) {
            running.cancel(true);
            return new String[] {"FAIL", "no result within " + CASE_SECONDS_MAX + " s"};
        } catch (Exception error) {
            return new String[] {"FAIL", error.toString()};
        }
    }

    private static synchronized void report(String outcome, String binding, String name, String reason) {
        String words = reason.replaceAll("\\s+", " ");
        OUT.println(String.join("\t", outcome, binding, name, words.length() > 300 ? words.substring(0, 300) : words));
    }

    private Main() {
    }
}
