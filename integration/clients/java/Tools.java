import com.fasterxml.jackson.databind.MappingIterator;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs Kafka's command-line tools one after the other in this one JVM, as starting one for each takes most of the time.
 * A tool's main is called as the command line would call it.
 *
 * <pre>
 * Tools    < a line of JSON for each: {"tool":"TopicCommand","args":["--list"],"stdin":""}
 *          > a line of JSON for each: {"status":0,"stdout":"","stderr":""}
 * </pre>
 */
public final class Tools {
    /** Ends a tool that hangs, and everything with it; nothing here takes as long. */
    private static final long PATIENCE_MS = 60_000;

    record Call(String tool, String[] args, String stdin) {}

    record Result(int status, String stdout, String stderr) {}

    /** Thrown where a tool would end its process. */
    private static final class Ended extends Error {
        private static final long serialVersionUID = 1;
    }

    private final ByteArrayOutputStream stdout = new ByteArrayOutputStream();
    private final ByteArrayOutputStream stderr = new ByteArrayOutputStream();
    private final List<Runnable> hooks = new ArrayList<>();
    private Result result; // of the first end; what a tool does after it would not happen

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        var json = new ObjectMapper();
        try (MappingIterator<Call> calls = json.readerFor(Call.class).readValues(System.in.readAllBytes())) {
            while (calls.hasNext()) {
                out.println(json.writeValueAsString(new Tools().run(calls.next())));
            }
        }
        out.flush();
        Runtime.getRuntime().halt(0); // whatever threads the tools have left
    }

    private Result run(Call call) throws InterruptedException {
        System.setIn(new ByteArrayInputStream(call.stdin.getBytes(StandardCharsets.UTF_8)));
        System.setOut(new PrintStream(stdout, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(stderr, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure((status, message) -> exit(status));
        Exit.setHaltProcedure((status, message) -> exit(status));
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        var main = new Thread(() -> call(call), "main of " + call.tool);
        main.start();
        main.join(PATIENCE_MS);
        if (result == null) {
            System.err.println("hangs");
            for (var frame : main.getStackTrace()) {
                System.err.println("\tat " + frame);
            }
            end(-1);
        }
        return result;
    }

    private void call(Call call) {
        try {
            Class.forName("org.apache.kafka.tools." + call.tool).getMethod("main", String[].class)
                    .invoke(null, (Object) call.args);
            end(0);
        } catch (InvocationTargetException e) {
            if (!(e.getCause() instanceof Ended)) {
                e.getCause().printStackTrace();
                end(1);
            }
        } catch (ReflectiveOperationException e) {
            e.printStackTrace();
            end(-1);
        }
    }

    private void exit(int status) {
        end(status);
        throw new Ended();
    }

    private synchronized void end(int status) {
        if (result != null) {
            return;
        }
        hooks.forEach(Runnable::run);
        result = new Result(status, stdout.toString(StandardCharsets.UTF_8), stderr.toString(StandardCharsets.UTF_8));
    }
}
