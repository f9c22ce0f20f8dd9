import io.quarkus.vertx.web.Route;
import io.vertx.ext.web.RoutingContext;
import jakarta.enterprise.context.ApplicationScoped;

/** The file that `files` names by its address. */
@ApplicationScoped
public class Paper {
    @Route(path = "/files/paper.txt", methods = Route.HttpMethod.GET)
    void paper(RoutingContext request) {
        request.response().putHeader("Content-Type", "text/plain").end("the text of the paper\n");
    }
}
