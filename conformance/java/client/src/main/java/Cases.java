import io.a2a.client.ClientEvent;
import io.a2a.client.MessageEvent;
import io.a2a.client.TaskEvent;
import io.a2a.client.TaskUpdateEvent;
import io.a2a.client.config.ClientConfig;
import io.a2a.spec.AgentCard;
import io.a2a.spec.Artifact;
import io.a2a.spec.DataPart;
import io.a2a.spec.DeleteTaskPushNotificationConfigParams;
import io.a2a.spec.FileContent;
import io.a2a.spec.FilePart;
import io.a2a.spec.FileWithBytes;
import io.a2a.spec.FileWithUri;
import io.a2a.spec.JSONRPCError;
import io.a2a.spec.ListTaskPushNotificationConfigParams;
import io.a2a.spec.Message;
import io.a2a.spec.Part;
import io.a2a.spec.PushNotificationConfig;
import io.a2a.spec.Task;
import io.a2a.spec.TaskArtifactUpdateEvent;
import io.a2a.spec.TaskIdParams;
import io.a2a.spec.TaskPushNotificationConfig;
import io.a2a.spec.TaskQueryParams;
import io.a2a.spec.TaskStatus;
import io.a2a.spec.TaskStatusUpdateEvent;
import io.a2a.spec.TextPart;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;

/** The promises of {@code cases/core.txt}, in the order of that list. */
final class Cases {
    /** No program listens there: the hook is only stored and looked up. */
    private static final String HOOK = "http://127.0.0.1:8009/hook";

    interface Case {
        void run(Client client) throws Throwable;
    }

    /** The SDK has no way to ask for this. */
    static final class NotExpressible extends Exception {
        NotExpressible(String why) {
            super(why);
        }
    }

    static final Map<String, Case> ALL = new LinkedHashMap<>();

    static {
        ALL.put("discover", Cases::discover);
        ALL.put("extended-card", Cases::extendedCard);
        ALL.put("send-blocking", Cases::sendBlocking);
        ALL.put("send-aggregate", Cases::sendAggregate);
        ALL.put("return-immediately", Cases::returnImmediately);
        ALL.put("part-bytes", Cases::partBytes);
        ALL.put("part-uri", c -> echoed(c, new FilePart(new FileWithUri("image/png", null, "https://example.com/ä?x=1&y=%20#z"))));
        ALL.put("part-data", c -> echoed(c, new DataPart(Map.of(
                "n", 1, "half", -0.5, "on", true, "deep", Map.of("er", "x"), "list", List.of("ü", List.of(2), 1e-7)))));
        ALL.put("file-parts", Cases::fileParts);
        ALL.put("direct-send", Cases::directSend);
        ALL.put("failed", c -> inState(c.task(say("fail now")).getStatus(), "failed", "could not"));
        ALL.put("rejected", c -> inState(c.task(say("reject this")).getStatus(), "rejected", "will not"));
        ALL.put("get-task", Cases::getTask);
        ALL.put("history-length", Cases::historyLength);
        ALL.put("stream", Cases::stream);
        ALL.put("stream-final", Cases::streamFinal);
        ALL.put("stream-dropped", Cases::streamDropped);
        ALL.put("direct-stream", Cases::directStream);
        ALL.put("subscribe-cancel", Cases::subscribeCancel);
        ALL.put("subscribe-input", Cases::subscribeInput);
        ALL.put("multi-turn", Cases::multiTurn);
        ALL.put("multi-turn-stream", Cases::multiTurnStream);
        ALL.put("auth-required", Cases::authRequired);
        ALL.put("context-mismatch", Cases::contextMismatch);
        ALL.put("get-unknown", Cases::getUnknown);
        ALL.put("cancel-unknown", c -> refused(() -> c.waiting.cancelTask(new TaskIdParams(newId())), "TaskNotFoundError"));
        ALL.put("cancel-settled", Cases::cancelSettled);
        ALL.put("subscribe-unknown", c -> refused(() -> c.subscribe(newId()).all(), "TaskNotFoundError"));
        ALL.put("subscribe-settled", Cases::subscribeSettled);
        ALL.put("stream-unknown-task", c -> refused(() -> c.stream(to("hello", newId())), "TaskNotFoundError"));
        ALL.put("send-settled", Cases::sendSettled);
        ALL.put("send-unknown-task", c -> refused(() -> c.task(to("hello", newId())), "TaskNotFoundError"));
        ALL.put("send-no-parts", Cases::sendNoParts);
        ALL.put("push-set", Cases::pushSet);
        ALL.put("push-delete", Cases::pushDelete);
        ALL.put("push-unknown", c -> refused(() -> hook(c, newId(), "mine"), "TaskNotFoundError"));
        ALL.put("push-unsupported", Cases::pushUnsupported);
    }

    // --- Words the cases are written in ---

    static String newId() {
        return UUID.randomUUID().toString();
    }

    static Message say(String text) {
        return message(text).build();
    }

    static Message to(String text, String task) {
        return message(text).taskId(task).build();
    }

    private static Message.Builder message(String text) {
        return new Message.Builder().role(Message.Role.USER).messageId(newId()).parts(List.of(new TextPart(text)));
    }

    static void equal(String what, Object got, Object want) {
        if (!Objects.equals(got, want)) {
            throw new AssertionError(what + ": got " + got + ", want " + want);
        }
    }

    static String textOf(List<Part<?>> parts) {
        StringBuilder text = new StringBuilder();
        for (Part<?> part : parts) {
            text.append(part instanceof TextPart one ? one.getText() : "");
        }
        return text.toString();
    }

    static void inState(TaskStatus status, String want, String text) {
        equal("state", status.state().asString(), want);
        if (text != null) {
            equal("status text", textOf(status.message().getParts()), text);
            equal("role", status.message().getRole(), Message.Role.AGENT);
        }
    }

    static TaskStatus finalStatus(List<ClientEvent> events) {
        ClientEvent last = events.get(events.size() - 1);
        if (last instanceof TaskEvent snapshot) {
            return snapshot.getTask().getStatus();
        }
        if (Client.update(last) instanceof TaskStatusUpdateEvent status) {
            return status.getStatus();
        }
        throw new AssertionError("the stream ended with " + last.getClass().getSimpleName());
    }

    interface Attempt {
        Object make() throws Throwable;
    }

    /** Checks that a call fails with this error, as the SDK shows it: the error itself, or the cause of its exception. */
    static void refused(Attempt attempt, String name) throws Throwable {
        Throwable error = failure(attempt);
        for (Throwable one = error; one != null; one = one.getCause()) {
            if (name.equals(one.getClass().getSimpleName())) {
                return;
            }
        }
        throw new AssertionError("expected " + name + ", got " + error + ", cause " + error.getCause());
    }

    private static Throwable failure(Attempt attempt) {
        Object answer;
        try {
            answer = attempt.make();
        } catch (Throwable error) {
            return error;
        }
        throw new AssertionError("expected an error, got an answer: " + answer);
    }

    /**
     * A part that was sent, as it comes back. The SDK writes no media type of a file over gRPC and HTTP+JSON, so there
     * the bytes and the address alone are compared.
     */
    private static void equalPart(Client client, Part<?> got, Part<?> want) {
        boolean hasTypes = client.binding.equals("JSONRPC");
        equal("part", hasTypes ? shown(got) : untyped(got), hasTypes ? shown(want) : untyped(want));
    }

    private static String untyped(Part<?> part) {
        String words = shown(part);
        return part instanceof FilePart ? words.substring(0, words.lastIndexOf(' ')) : words;
    }

    /** A part as text, so that two can be compared: the classes of the SDK have no {@code equals}. */
    static String shown(Part<?> part) {
        if (part instanceof TextPart text) {
            return "text " + text.getText();
        }
        if (part instanceof DataPart data) {
            return "data " + plain(data.getData());
        }
        FileContent file = ((FilePart) part).getFile();
        if (file instanceof FileWithBytes bytes) {
            return "bytes " + bytes.bytes() + " " + bytes.mimeType();
        }
        return "uri " + ((FileWithUri) file).uri() + " " + file.mimeType();
    }

    /** A value with its members in order and its numbers of one type. */
    private static Object plain(Object value) {
        if (value instanceof Map<?, ?> map) {
            var ordered = new java.util.TreeMap<String, Object>();
            map.forEach((name, one) -> ordered.put((String) name, plain(one)));
            return ordered;
        }
        if (value instanceof List<?> list) {
            return list.stream().map(Cases::plain).toList();
        }
        return value instanceof Number number ? number.doubleValue() : value;
    }

    private static void echoed(Client client, Part<?> part) throws Throwable {
        Message message = new Message.Builder().role(Message.Role.USER).parts(List.of(new TextPart("hello"), part)).build();
        Task task = client.task(message);
        equal("artifacts", task.getArtifacts().size(), 1);
        equalPart(client, task.getArtifacts().get(0).parts().get(1), part);
        equalPart(client, task.getHistory().get(0).getParts().get(1), part);
    }

    // --- Discovery ---

    private static void discover(Client client) {
        AgentCard card = client.card;
        equal("card", List.of(card.name(), card.description(), card.version()), List.of("demo", "conformance agent", "1.0.0"));
        equal("streaming", card.capabilities().streaming(), true);
        equal("push", card.capabilities().pushNotifications(), true);
    }

    private static void extendedCard(Client client) throws Throwable {
        if (client.binding.equals("HTTP+JSON")) {
            throw new NotExpressible("over HTTP+JSON the SDK shows the card it was made from");
        }
        AgentCard claiming = new AgentCard.Builder(client.card).supportsAuthenticatedExtendedCard(true).build();
        var other = Client.connect(claiming, client.binding, new ClientConfig.Builder());
        if (client.binding.equals("GRPC")) {
            equal("name", other.getAgentCard().name(), "demo");
            return;
        }
        // The SDK has a class for this error and does not make it, so its user sees the number.
        Throwable error = failure(other::getAgentCard);
        equal("code", error.getCause() instanceof JSONRPCError told ? told.getCode() : error.toString(), -32007);
    }

    // --- Sending ---

    private static void sendBlocking(Client client) throws Throwable {
        String text = "héllo wörld, ✓ 你好 🌊";
        Message message = say(text);
        Task task = client.task(message);
        inState(task.getStatus(), "completed", null);
        equal("artifact", textOf(task.getArtifacts().get(0).parts()), text);
        Message kept = task.getHistory().get(0);
        equal("message in history", List.of(kept.getMessageId(), kept.getRole(), textOf(kept.getParts())),
                List.of(message.getMessageId(), Message.Role.USER, text));
    }

    private static void sendAggregate(Client client) throws Throwable {
        Task task = client.task(say("stream, but in one reply"));
        inState(task.getStatus(), "completed", "done");
        Artifact made = task.getArtifacts().get(0);
        equal("artifact", List.of(made.artifactId(), made.name(), textOf(made.parts())), List.of("a1", "draft", "part one part two"));
    }

    private static void returnImmediately(Client client) throws Throwable {
        long began = System.nanoTime();
        Task task = client.started("slow work");
        if (System.nanoTime() - began > 4_000_000_000L) {
            throw new AssertionError("the reply was not immediate");
        }
        while (task.getStatus().state().asString().equals("submitted")) {
            Thread.sleep(50);
            task = client.waiting.getTask(new TaskQueryParams(task.getId()));
        }
        inState(task.getStatus(), "working", "working on it");
        inState(client.waiting.cancelTask(new TaskIdParams(task.getId())).getStatus(), "canceled", null);
        inState(client.waiting.getTask(new TaskQueryParams(task.getId())).getStatus(), "canceled", null);
    }

    private static void partBytes(Client client) throws Throwable {
        byte[] raw = new byte[256];
        for (int i = 0; i < raw.length; i++) {
            raw[i] = (byte) i;
        }
        echoed(client, new FilePart(new FileWithBytes("application/octet-stream", null, Base64.getEncoder().encodeToString(raw))));
    }

    private static void fileParts(Client client) throws Throwable {
        var parts = new java.util.TreeMap<String, String>();
        for (Artifact made : client.task(say("file me")).getArtifacts()) {
            parts.put(made.artifactId(), shown(made.parts().get(0)));
        }
        equal("parts", parts, new java.util.TreeMap<>(Map.of(
                "f", "bytes AAEC/w== application/octet-stream",
                "d", "data {list=[1.0, 2.0], n=1.0, ok=true}",
                "u", "uri https://example.com/x.png image/png")));
    }

    private static void directSend(Client client) throws Throwable {
        ClientEvent reply = client.send(client.waiting, say("direct please"));
        if (!(reply instanceof MessageEvent event)) {
            throw new AssertionError("expected a message, got a " + reply.getClass().getSimpleName());
        }
        equal("text", textOf(event.getMessage().getParts()), "just a message");
        equal("role", event.getMessage().getRole(), Message.Role.AGENT);
    }

    // --- Reading ---

    private static void getTask(Client client) throws Throwable {
        Task sent = client.task(say("hello"));
        Task got = client.waiting.getTask(new TaskQueryParams(sent.getId()));
        equal("ids", List.of(got.getId(), got.getContextId()), List.of(sent.getId(), sent.getContextId()));
        inState(got.getStatus(), "completed", null);
        equal("artifact", textOf(got.getArtifacts().get(0).parts()), "hello");
    }

    private static void historyLength(Client client) throws Throwable {
        if (client.binding.equals("HTTP+JSON")) {
            throw new NotExpressible("over HTTP+JSON the SDK asks for a history at an address with a space, and fails");
        }
        Task asked = client.task(say("book a table"));
        client.task(to("Tuesday", asked.getId()));
        List<Message> whole = client.waiting.getTask(new TaskQueryParams(asked.getId(), 100)).getHistory();
        List<Message> latest = client.waiting.getTask(new TaskQueryParams(asked.getId(), 1)).getHistory();
        equal("history at 1", latest.stream().map(Message::getMessageId).toList(),
                List.of(whole.get(whole.size() - 1).getMessageId()));
    }

    // --- Streams ---

    private static void stream(Client client) throws Throwable {
        List<ClientEvent> events = client.stream(say("stream it"));
        if (!(events.get(0) instanceof TaskEvent opening)) {
            throw new AssertionError("the first event is a " + events.get(0).getClass().getSimpleName());
        }
        List<String> got = new ArrayList<>();
        for (ClientEvent event : events.subList(1, events.size())) {
            if (Client.update(event) instanceof TaskArtifactUpdateEvent update) {
                Artifact made = update.getArtifact();
                got.add(made.artifactId() + " " + textOf(made.parts()) + " append=" + Boolean.TRUE.equals(update.isAppend())
                        + " last=" + Boolean.TRUE.equals(update.isLastChunk()));
            } else if (Client.update(event) instanceof TaskStatusUpdateEvent update && update.getStatus().message() != null) {
                got.add(update.getStatus().state().asString() + " " + textOf(update.getStatus().message().getParts()));
            }
        }
        equal("events", got, List.of("working looking", "a1 part one  append=false last=false",
                "a1 part two append=true last=true", "completed done"));
        inState(finalStatus(events), "completed", "done");
        Task stored = client.waiting.getTask(new TaskQueryParams(opening.getTask().getId()));
        equal("stored artifact", textOf(stored.getArtifacts().get(0).parts()), "part one part two");
    }

    private static void streamFinal(Client client) throws Throwable {
        for (String text : List.of("stream it", "fail now", "book a table")) {
            List<ClientEvent> events = client.stream(say(text));
            for (int i = 0; i < events.size(); i++) {
                if (Client.update(events.get(i)) instanceof TaskStatusUpdateEvent update) {
                    equal("final", update.isFinal(), i == events.size() - 1);
                }
            }
        }
    }

    private static void streamDropped(Client client) throws Throwable {
        throw new NotExpressible("the SDK has no call that leaves a stream");
    }

    private static void directStream(Client client) throws Throwable {
        List<ClientEvent> events = client.stream(say("direct please"));
        equal("events", events.size(), 1);
        equal("text", textOf(((MessageEvent) events.get(0)).getMessage().getParts()), "just a message");
    }

    private static void subscribeCancel(Client client) throws Throwable {
        Task task = client.started("slow work");
        Client.Events following = client.subscribe(task.getId());
        try {
            if (!(following.first() instanceof TaskEvent opening) || !opening.getTask().getId().equals(task.getId())) {
                throw new AssertionError("the first event is " + following.first());
            }
        } finally {
            inState(client.waiting.cancelTask(new TaskIdParams(task.getId())).getStatus(), "canceled", null);
        }
        inState(finalStatus(following.all()), "canceled", null);
    }

    private static void subscribeInput(Client client) throws Throwable {
        Task asked = client.task(say("book a table"));
        Client.Events following = client.subscribe(asked.getId());
        inState(((TaskEvent) following.first()).getTask().getStatus(), "input-required", "Which day?");
        client.task(to("Tuesday", asked.getId()));
        List<ClientEvent> events = following.all();
        List<String> made = new ArrayList<>();
        for (ClientEvent event : events) {
            if (Client.update(event) instanceof TaskArtifactUpdateEvent update) {
                made.add(update.getArtifact().artifactId() + " " + textOf(update.getArtifact().parts()));
            }
        }
        equal("artifacts", made, List.of("booking booked"));
        inState(finalStatus(events), "completed", null);
    }

    // --- Turns ---

    private static void multiTurn(Client client) throws Throwable {
        Task asked = client.task(say("book a table"));
        inState(asked.getStatus(), "input-required", "Which day?");
        Task done = client.task(to("Tuesday", asked.getId()));
        equal("ids", List.of(done.getId(), done.getContextId()), List.of(asked.getId(), asked.getContextId()));
        inState(done.getStatus(), "completed", "booked");
        equal("artifact", textOf(done.getArtifacts().get(0).parts()), "booked");
    }

    private static void multiTurnStream(Client client) throws Throwable {
        List<ClientEvent> asked = client.stream(say("book a table"));
        inState(finalStatus(asked), "input-required", "Which day?");
        String task = ((TaskEvent) asked.get(0)).getTask().getId();
        inState(finalStatus(client.stream(to("Tuesday", task))), "completed", "booked");
    }

    private static void authRequired(Client client) throws Throwable {
        Task asked = client.task(say("auth please"));
        inState(asked.getStatus(), "auth-required", "log in");
        inState(client.task(to("I did", asked.getId())).getStatus(), "completed", "in");
    }

    private static void contextMismatch(Client client) throws Throwable {
        Task asked = client.task(say("book a table"));
        Task other = client.task(say("hello"));
        Message message = message("Tuesday").taskId(asked.getId()).contextId(other.getContextId()).build();
        refused(() -> client.task(message), "InvalidParamsError");
    }

    // --- Refusals ---

    private static void getUnknown(Client client) throws Throwable {
        refused(() -> client.waiting.getTask(new TaskQueryParams(newId())), "TaskNotFoundError");
    }

    private static String settled(Client client) throws Throwable {
        return client.task(say("hello")).getId();
    }

    private static void cancelSettled(Client client) throws Throwable {
        String task = settled(client);
        refused(() -> client.waiting.cancelTask(new TaskIdParams(task)), "TaskNotCancelableError");
    }

    private static void subscribeSettled(Client client) throws Throwable {
        String task = settled(client);
        refused(() -> client.subscribe(task).all(), "UnsupportedOperationError");
    }

    private static void sendSettled(Client client) throws Throwable {
        String task = settled(client);
        refused(() -> client.task(to("one more thing", task)), "UnsupportedOperationError");
        refused(() -> client.stream(to("and another", task)), "UnsupportedOperationError");
    }

    private static void sendNoParts(Client client) throws Throwable {
        Message message;
        try {
            message = new Message.Builder().role(Message.Role.USER).parts(List.of()).build();
        } catch (IllegalArgumentException refused) {
            throw new NotExpressible("the SDK makes no message without parts");
        }
        refused(() -> client.task(message), "InvalidParamsError");
    }

    // --- Push configurations ---

    private static TaskPushNotificationConfig hook(Client client, String task, String id) throws Exception {
        PushNotificationConfig config = new PushNotificationConfig.Builder().url(HOOK).id(id).build();
        return client.waiting.setTaskPushNotificationConfiguration(new TaskPushNotificationConfig(task, config));
    }

    private static List<String> hooks(Client client, String task) throws Exception {
        return client.waiting.listTaskPushNotificationConfigurations(new ListTaskPushNotificationConfigParams(task)).stream()
                .map(one -> one.pushNotificationConfig().id() + " " + one.pushNotificationConfig().url()).toList();
    }

    private static void pushSet(Client client) throws Throwable {
        String task = client.started("book a table").getId();
        equal("id", hook(client, task, "mine").pushNotificationConfig().id(), "mine");
        equal("listed", hooks(client, task), List.of("mine " + HOOK));
        client.waiting.cancelTask(new TaskIdParams(task));
    }

    private static void pushDelete(Client client) throws Throwable {
        String task = client.started("book a table").getId();
        hook(client, task, "one");
        hook(client, task, "two");
        for (int i = 0; i < 2; i++) {
            client.waiting.deleteTaskPushNotificationConfigurations(new DeleteTaskPushNotificationConfigParams(task, "one"));
        }
        equal("listed", hooks(client, task), List.of("two " + HOOK));
        client.waiting.cancelTask(new TaskIdParams(task));
    }

    private static void pushUnsupported(Client client) throws Throwable {
        Client plain;
        try {
            plain = new Client(client.base, "/agents/plain", client.binding);
        } catch (IllegalStateException notOffered) {
            throw new NotExpressible("0.3 cannot say which of the agents at one gRPC address is meant");
        }
        String task = settled(plain);
        refused(() -> hook(plain, task, "mine"), "PushNotificationNotSupportedError");
    }

    private Cases() {
    }
}
