// A REST catalog of Iceberg's own parts: its handlers of requests, its serializers, its catalog in memory.
//
//   java -cp JARS RestCatalogServer.java WAREHOUSE [one-table] [config:NAME=VALUE ...] [override:NAME=VALUE ...]
//
// It writes its port on a line of the standard output, and ends with its standard input. "one-table": commits of several
// tables are not among its endpoints. "config": what it says of files with each table; "override": with its configuration.

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.stream.Stream;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.NoSuchNamespaceException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.inmemory.InMemoryCatalog;
import org.apache.iceberg.rest.CatalogHandlers;
import org.apache.iceberg.rest.Endpoint;
import org.apache.iceberg.rest.RESTCatalogProperties;
import org.apache.iceberg.rest.RESTSerializers;
import org.apache.iceberg.rest.requests.CommitTransactionRequest;
import org.apache.iceberg.rest.requests.CreateNamespaceRequest;
import org.apache.iceberg.rest.requests.CreateTableRequest;
import org.apache.iceberg.rest.requests.UpdateTableRequest;
import org.apache.iceberg.rest.responses.ConfigResponse;
import org.apache.iceberg.rest.responses.ErrorResponse;
import org.apache.iceberg.rest.responses.LoadTableResponse;
import org.apache.iceberg.shaded.com.fasterxml.jackson.annotation.JsonAutoDetect;
import org.apache.iceberg.shaded.com.fasterxml.jackson.annotation.PropertyAccessor;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.DeserializationFeature;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.PropertyNamingStrategies;

public class RestCatalogServer {
  private final InMemoryCatalog catalog = new InMemoryCatalog();
  private final ObjectMapper json = new ObjectMapper();
  private final Map<String, String> config = new HashMap<>();
  private final Map<String, String> overrides = new HashMap<>();
  private final boolean severalTables;

  private RestCatalogServer(List<String> words) {
    json.setVisibility(PropertyAccessor.FIELD, JsonAutoDetect.Visibility.ANY);
    json.configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);
    json.setPropertyNamingStrategy(new PropertyNamingStrategies.KebabCaseStrategy());
    RESTSerializers.registerAll(json);
    Map<String, String> own = Map.of("warehouse", words.get(0), "io-impl", "org.apache.iceberg.hadoop.HadoopFileIO");
    catalog.initialize("rest", own);
    severalTables = !words.contains("one-table");
    take(words, "config:", config);
    take(words, "override:", overrides);
  }

  private static void take(List<String> words, String prefix, Map<String, String> into) {
    for (String word : words) {
      if (word.startsWith(prefix)) {
        String[] pair = word.substring(prefix.length()).split("=", 2);
        into.put(pair[0], pair[1]);
      }
    }
  }

  public static void main(String[] words) throws IOException {
    RestCatalogServer served = new RestCatalogServer(List.of(words));
    HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
    server.setExecutor(Executors.newFixedThreadPool(4));
    server.createContext("/", served::answer);
    server.start();
    System.out.println(server.getAddress().getPort());
    System.out.flush();
    while (System.in.read() >= 0) {}
    System.exit(0);
  }

  private void answer(HttpExchange exchange) throws IOException {
    int status = 200;
    Object body;
    try {
      List<String> path =
          Stream.of(exchange.getRequestURI().getRawPath().split("/"))
              .skip(2)
              .map(part -> URLDecoder.decode(part, StandardCharsets.UTF_8))
              .toList();
      synchronized (this) {
        body = answered(exchange.getRequestMethod(), path, exchange.getRequestBody().readAllBytes());
      }
    } catch (Exception error) {
      status = statusOf(error);
      body =
          ErrorResponse.builder()
              .responseCode(status)
              .withType(error.getClass().getSimpleName())
              .withMessage(String.valueOf(error.getMessage()))
              .build();
    }
    byte[] text = body == null ? new byte[0] : json.writeValueAsBytes(body);
    boolean isEmpty = text.length == 0 || exchange.getRequestMethod().equals("HEAD");
    exchange.getResponseHeaders().set("Content-Type", "application/json");
    exchange.sendResponseHeaders(body == null ? 204 : status, isEmpty ? -1 : text.length);
    if (!isEmpty) {
      exchange.getResponseBody().write(text);
    }
    exchange.close();
  }

  private static int statusOf(Exception error) {
    if (error instanceof NoSuchTableException || error instanceof NoSuchNamespaceException) {
      return 404;
    }
    if (error instanceof AlreadyExistsException || error instanceof CommitFailedException) {
      return 409;
    }
    return error instanceof IllegalArgumentException ? 400 : 500;
  }

  private Object answered(String method, List<String> path, byte[] body) throws IOException {
    if (path.equals(List.of("config"))) {
      return configuration();
    }
    if (path.equals(List.of("transactions", "commit"))) {
      commit(json.readValue(body, CommitTransactionRequest.class));
      return null;
    }
    if (path.size() == 1) {
      return method.equals("POST")
          ? CatalogHandlers.createNamespace(catalog, json.readValue(body, CreateNamespaceRequest.class))
          : CatalogHandlers.listNamespaces(catalog, Namespace.empty());
    }
    Namespace namespace = Namespace.of(path.get(1).split("\u001f"));
    if (path.size() == 2) {
      return CatalogHandlers.loadNamespace(catalog, namespace);
    }
    if (path.size() == 3) {
      return method.equals("POST")
          ? created(namespace, json.readValue(body, CreateTableRequest.class))
          : CatalogHandlers.listTables(catalog, namespace);
    }
    return ofTable(method, TableIdentifier.of(namespace, path.get(3)), body);
  }

  private Object ofTable(String method, TableIdentifier table, byte[] body) throws IOException {
    switch (method) {
      case "POST":
        UpdateTableRequest request = json.readValue(body, UpdateTableRequest.class);
        return withConfig(CatalogHandlers.updateTable(catalog, table, request));
      case "DELETE":
        CatalogHandlers.dropTable(catalog, table);
        return null;
      default:
        return withConfig(CatalogHandlers.loadTable(catalog, table, RESTCatalogProperties.SnapshotMode.ALL));
    }
  }

  private LoadTableResponse created(Namespace namespace, CreateTableRequest request) {
    return withConfig(
        request.stageCreate()
            ? CatalogHandlers.stageTableCreate(catalog, namespace, request)
            : CatalogHandlers.createTable(catalog, namespace, request));
  }

  private LoadTableResponse withConfig(LoadTableResponse answer) {
    return LoadTableResponse.builder().withTableMetadata(answer.tableMetadata()).addAllConfig(config).build();
  }

  /** Commits to all tables or none: nobody else is answered meanwhile, and what they require is looked at first. */
  private void commit(CommitTransactionRequest request) {
    for (UpdateTableRequest change : request.tableChanges()) {
      TableMetadata now =
          catalog.tableExists(change.identifier())
              ? ((BaseTable) catalog.loadTable(change.identifier())).operations().current()
              : null;
      change.requirements().forEach(requirement -> requirement.validate(now));
    }
    for (UpdateTableRequest change : request.tableChanges()) {
      CatalogHandlers.updateTable(catalog, change.identifier(), change);
    }
  }

  private ConfigResponse configuration() {
    List<Endpoint> endpoints =
        new ArrayList<>(
            List.of(
                Endpoint.V1_LIST_NAMESPACES,
                Endpoint.V1_LOAD_NAMESPACE,
                Endpoint.V1_NAMESPACE_EXISTS,
                Endpoint.V1_CREATE_NAMESPACE,
                Endpoint.V1_LIST_TABLES,
                Endpoint.V1_LOAD_TABLE,
                Endpoint.V1_TABLE_EXISTS,
                Endpoint.V1_CREATE_TABLE,
                Endpoint.V1_UPDATE_TABLE,
                Endpoint.V1_DELETE_TABLE));
    if (severalTables) {
      endpoints.add(Endpoint.V1_COMMIT_TRANSACTION);
    }
    return ConfigResponse.builder().withOverrides(overrides).withEndpoints(endpoints).build();
  }
}
