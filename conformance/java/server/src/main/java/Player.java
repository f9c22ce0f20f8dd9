import io.a2a.server.agentexecution.AgentExecutor;
import io.a2a.server.agentexecution.RequestContext;
import io.a2a.server.events.EventQueue;
import io.a2a.server.tasks.TaskUpdater;
import io.a2a.spec.DataPart;
import io.a2a.spec.FilePart;
import io.a2a.spec.FileWithBytes;
import io.a2a.spec.FileWithUri;
import io.a2a.spec.JSONRPCError;
import io.a2a.spec.Message;
import io.a2a.spec.Part;
import io.a2a.spec.Task;
import io.a2a.spec.TaskNotCancelableError;
import io.a2a.spec.TaskState;
import io.a2a.spec.TaskStatus;
import io.a2a.spec.TextPart;
import jakarta.enterprise.context.ApplicationScoped;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.eclipse.microprofile.config.inject.ConfigProperty;

/** What the agent does: the first word of a message decides, as in {@code servers/agents/behaviour.py}. */
@ApplicationScoped
public class Player implements AgentExecutor {
    private static final int CHUNK_MILLISECONDS = 300;
    private static final byte[] RAW = "bytes \u0000\u00ff\u001b of a file".getBytes(StandardCharsets.ISO_8859_1);

    @ConfigProperty(name = "quarkus.http.port")
    int port;

    /** A latch for each task at work; a cancel opens it. */
    private final Map<String, CountDownLatch> canceled = new ConcurrentHashMap<>();

    @Override
    public void execute(RequestContext asked, EventQueue queue) throws JSONRPCError {
        TaskUpdater updater = new TaskUpdater(asked, queue);
        String said = asked.getUserInput("\n").strip();
        CountDownLatch stop = canceled.computeIfAbsent(asked.getTaskId(), id -> new CountDownLatch(1));
        try {
            play(asked, queue, updater, said, stop);
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }

    private void play(RequestContext asked, EventQueue queue, TaskUpdater updater, String said, CountDownLatch stop)
            throws InterruptedException {
        String word = said.contains(" ") ? said.substring(0, said.indexOf(' ')) : said;
        String rest = said.substring(word.length()).strip();
        if (asked.getTask() != null) {
            updater.startWork();
            artifact(updater, "answer", said);
            updater.complete(words(updater, "thank you"));
            return;
        }
        if (word.equals("message")) {
            queue.enqueueEvent(new Message.Builder().role(Message.Role.AGENT).contextId(asked.getContextId())
                    .parts(List.of(new TextPart(rest.isEmpty() ? "a direct message" : rest))).build());
            return;
        }
        queue.enqueueEvent(new Task.Builder().id(asked.getTaskId()).contextId(asked.getContextId())
                .status(new TaskStatus(TaskState.SUBMITTED)).history(List.of(asked.getMessage())).build());
        updater.startWork();
        switch (word) {
            case "slow" -> {
                int count = rest.isEmpty() ? 3 : Integer.parseInt(rest);
                for (int number = 1; number <= count; number++) {
                    if (stop.await(CHUNK_MILLISECONDS, TimeUnit.MILLISECONDS)) {
                        return;
                    }
                    List<Part<?>> chunk = List.of(new TextPart("chunk " + number + " "));
                    updater.addArtifact(chunk, "slow-1", "slow", null, number > 1, number == count);
                }
                updater.complete();
            }
            case "ask" -> updater.requiresInput(words(updater, "Which city?"), true);
            case "auth" -> updater.requiresAuth(words(updater, "Log in at https://login.example and say when you have"), true);
            case "fail" -> updater.fail(words(updater, "it did not work"));
            case "reject" -> updater.reject(words(updater, "not my trade"));
            case "files" -> {
                String bytes = Base64.getEncoder().encodeToString(RAW);
                String address = "http://127.0.0.1:" + port + "/files/paper.txt";
                updater.addArtifact(List.of(
                        new TextPart("one of each"),
                        new FilePart(new FileWithBytes("application/octet-stream", "raw.bin", bytes)),
                        new FilePart(new FileWithUri("text/plain", "paper.txt", address)),
                        new DataPart(Map.of("count", 3, "list", List.of(1, "two", true)))), "files-1", "files", null, false, true);
                updater.complete();
            }
            case "hold" -> stop.await();
            default -> {
                artifact(updater, "echo", word.equals("echo") ? rest : said);
                updater.complete();
            }
        }
    }

    private static void artifact(TaskUpdater updater, String name, String text) {
        updater.addArtifact(List.of(new TextPart(text)), name + "-1", name, null, false, true);
    }

    private static Message words(TaskUpdater updater, String text) {
        return updater.newAgentMessage(List.of(new TextPart(text)), null);
    }

    @Override
    public void cancel(RequestContext asked, EventQueue queue) throws JSONRPCError {
        TaskState state = asked.getTask().getStatus().state();
        if (state.isFinal()) {
            throw new TaskNotCancelableError();
        }
        new TaskUpdater(asked, queue).cancel();
        CountDownLatch stop = canceled.get(asked.getTaskId());
        if (stop != null) {
            stop.countDown();
        }
    }
}
