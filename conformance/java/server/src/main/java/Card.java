import io.a2a.server.ExtendedAgentCard;
import io.a2a.server.PublicAgentCard;
import io.a2a.spec.AgentCapabilities;
import io.a2a.spec.AgentCard;
import io.a2a.spec.AgentInterface;
import io.a2a.spec.AgentSkill;
import jakarta.enterprise.context.ApplicationScoped;
import jakarta.enterprise.inject.Produces;
import java.util.List;
import org.eclipse.microprofile.config.inject.ConfigProperty;

/** The cards of an agent made with the Java SDK for 0.3. The SDK serves JSON-RPC at `/` and HTTP+JSON below `/v1`. */
@ApplicationScoped
public class Card {
    @ConfigProperty(name = "quarkus.http.port")
    int port;

    /** The binding that the card prefers. */
    @ConfigProperty(name = "first", defaultValue = "JSONRPC")
    String first;

    @Produces
    @PublicAgentCard
    public AgentCard publicCard() {
        return card("An agent of the tests on the Java SDK for 0.3");
    }

    @Produces
    @ExtendedAgentCard
    public AgentCard extendedCard() {
        return card("The extended card");
    }

    private AgentCard card(String description) {
        String base = "http://127.0.0.1:" + port;
        return new AgentCard.Builder()
                .name("Java 0.3")
                .description(description)
                .version("1.0.0")
                .protocolVersion("0.3.0")
                .url(base)
                .preferredTransport(first)
                .additionalInterfaces(List.of(new AgentInterface("JSONRPC", base), new AgentInterface("HTTP+JSON", base)))
                .capabilities(new AgentCapabilities.Builder().streaming(true).pushNotifications(true).build())
                .supportsAuthenticatedExtendedCard(true)
                .defaultInputModes(List.of("text/plain", "application/json", "application/octet-stream"))
                .defaultOutputModes(List.of("text/plain"))
                .skills(List.of(new AgentSkill.Builder()
                        .id("play")
                        .name("Play")
                        .description("Does what the first word says")
                        .tags(List.of("test"))
                        .examples(List.of("echo hello", "slow 3", "ask"))
                        .build()))
                .build();
    }
}
