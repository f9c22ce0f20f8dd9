import io.a2a.A2A;
import io.a2a.client.ClientEvent;
import io.a2a.client.MessageEvent;
import io.a2a.client.TaskEvent;
import io.a2a.client.TaskUpdateEvent;
import io.a2a.client.config.ClientConfig;
import io.a2a.client.transport.grpc.GrpcTransport;
import io.a2a.client.transport.grpc.GrpcTransportConfigBuilder;
import io.a2a.client.transport.jsonrpc.JSONRPCTransport;
import io.a2a.client.transport.jsonrpc.JSONRPCTransportConfigBuilder;
import io.a2a.client.transport.rest.RestTransport;
import io.a2a.client.transport.rest.RestTransportConfigBuilder;
import io.a2a.spec.AgentCard;
import io.a2a.spec.AgentInterface;
import io.a2a.spec.Message;
import io.a2a.spec.Task;
import io.a2a.spec.TaskStatusUpdateEvent;
import io.a2a.spec.UpdateEvent;
import io.grpc.ManagedChannelBuilder;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;
import java.util.function.Consumer;

/** One binding of one server, and the clients of the SDK for it: one that streams, one that waits and one that polls. */
final class Client {
    /** Longer than anything a case waits for on purpose. */
    static final int CALL_SECONDS_MAX = 20;

    final String base;
    final String binding;
    final AgentCard card;
    final io.a2a.client.Client streaming;
    final io.a2a.client.Client waiting;
    final io.a2a.client.Client polling;

    Client(String base, String path, String binding) throws Exception {
        this.base = base;
        this.binding = binding;
        // The resolver drops the path of a URL, so that of an agent beside the default one is given to it separately.
        AgentCard found = A2A.getAgentCard(base, path + "/.well-known/agent-card.json", Map.of());
        boolean offered = binding.equals(found.preferredTransport())
                || found.additionalInterfaces() != null
                        && found.additionalInterfaces().stream().map(AgentInterface::transport).anyMatch(binding::equals);
        if (!offered) {
            throw new IllegalStateException("the card at " + base + path + " offers no " + binding);
        }
        this.card = found;
        streaming = connect(new ClientConfig.Builder().setStreaming(true));
        waiting = connect(new ClientConfig.Builder().setStreaming(false));
        polling = connect(new ClientConfig.Builder().setStreaming(false).setPolling(true));
    }

    private io.a2a.client.Client connect(ClientConfig.Builder config) throws Exception {
        return connect(card, binding, config);
    }

    static io.a2a.client.Client connect(AgentCard card, String binding, ClientConfig.Builder config) throws Exception {
        var builder = io.a2a.client.Client.builder(card).clientConfig(config.setUseClientPreference(true).build());
        switch (binding) {
            case "JSONRPC" -> builder.withTransport(JSONRPCTransport.class, new JSONRPCTransportConfigBuilder());
            case "HTTP+JSON" -> builder.withTransport(RestTransport.class, new RestTransportConfigBuilder());
            default -> builder.withTransport(GrpcTransport.class, new GrpcTransportConfigBuilder()
                    .channelFactory(url -> ManagedChannelBuilder.forTarget(url).usePlaintext().build()));
        }
        return builder.build();
    }

    /** A call of the SDK that reports what it gets to a consumer, and errors of streams to another. */
    interface Call {
        void make(List<BiConsumer<ClientEvent, AgentCard>> consumers, Consumer<Throwable> errors) throws Exception;
    }

    /** The events of a call, and whether it has ended. */
    static final class Events {
        final List<ClientEvent> seen = new ArrayList<>();
        final CompletableFuture<ClientEvent> first = new CompletableFuture<>();
        final CompletableFuture<Void> end = new CompletableFuture<>();

        synchronized void add(ClientEvent event) {
            seen.add(event);
            first.complete(event);
            // The SDK closes a stream at its last event without a word to its user.
            boolean isFinal = event instanceof MessageEvent
                    || update(event) instanceof TaskStatusUpdateEvent status && status.isFinal();
            if (isFinal) {
                end.complete(null);
            }
        }

        void fail(Throwable error) {
            if (error == null) {
                end.complete(null);
                first.completeExceptionally(new IllegalStateException("the stream ended without an event and without an error"));
            } else {
                end.completeExceptionally(error);
                first.completeExceptionally(error);
            }
        }

        ClientEvent first() throws Throwable {
            return get(first);
        }

        List<ClientEvent> all() throws Throwable {
            get(end);
            get(first);
            synchronized (this) {
                return List.copyOf(seen);
            }
        }

        private static <T> T get(CompletableFuture<T> future) throws Throwable {
            try {
                return future.get(CALL_SECONDS_MAX, TimeUnit.SECONDS);
            } catch (ExecutionException wrapped) {
                throw wrapped.getCause();
            }
        }
    }

    static UpdateEvent update(ClientEvent event) {
        return event instanceof TaskUpdateEvent update ? update.getUpdateEvent() : null;
    }

    Events begin(Call call) throws Exception {
        Events events = new Events();
        call.make(List.of((event, card) -> events.add(event)), events::fail);
        return events;
    }

    ClientEvent send(io.a2a.client.Client client, Message message) throws Throwable {
        return begin((consumers, errors) -> client.sendMessage(message, consumers, errors, null)).first();
    }

    Task task(Message message) throws Throwable {
        return taskOf(send(waiting, message));
    }

    Task started(String text) throws Throwable {
        return taskOf(send(polling, Cases.say(text)));
    }

    private static Task taskOf(ClientEvent reply) {
        if (reply instanceof TaskEvent event) {
            return event.getTask();
        }
        throw new AssertionError("expected a task, got a " + reply.getClass().getSimpleName());
    }

    List<ClientEvent> stream(Message message) throws Throwable {
        return begin((consumers, errors) -> streaming.sendMessage(message, consumers, errors, null)).all();
    }

    Events subscribe(String task) throws Exception {
        var asked = new io.a2a.spec.TaskIdParams(task);
        return begin((consumers, errors) -> streaming.resubscribe(asked, consumers, errors, null));
    }
}
