import io.debezium.config.Configuration;
import io.debezium.connector.postgresql.PostgresConnectorConfig;
import io.debezium.connector.postgresql.connection.PostgresConnection;
import io.debezium.relational.Table;
import io.debezium.relational.TableId;
import io.debezium.relational.Tables;
import io.debezium.relational.history.ConnectTableChangeSerializer;
import io.debezium.relational.history.TableChanges;
import io.debezium.schema.SchemaFactory;
import io.debezium.schema.SchemaNameAdjuster;
import java.io.PrintWriter;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.json.JsonConverter;

/**
 * Prints the schema change of each table of a server as Debezium's other connectors make them, with the PostgreSQL
 * connector's own reading of the table: a CREATE a line, and of the last table a DROP.
 *
 * <p>Argument: a file of the connector's properties; {@code print.to} is the file that is written.
 */
final class PrintTables {
    private PrintTables() {}

    public static void main(String[] files) throws Exception {
        Properties properties = new Properties();
        try (Reader reader = Files.newBufferedReader(Path.of(files[0]))) {
            properties.load(reader);
        }
        String to = (String) properties.remove("print.to");
        PostgresConnectorConfig config = new PostgresConnectorConfig(Configuration.from(properties));
        Tables tables = new Tables();
        try (PostgresConnection connection = new PostgresConnection(
                config, PostgresConnection.createTypeRegistry(config.getJdbcConfig()), "peer")) {
            connection.readSchema(
                    tables, config.databaseName(), null, id -> !id.schema().startsWith("pg_"), null, false);
        }
        try (PrintWriter out = new PrintWriter(Files.newBufferedWriter(Path.of(to), StandardCharsets.UTF_8))) {
            TableId last = null;
            for (TableId id : tables.tableIds()) {
                out.println(line(config, new TableChanges().create(tables.forTable(id)), id.schema()));
                last = id;
            }
            out.println(line(config, new TableChanges().drop(last), last.schema()));
        }
    }

    private static String line(PostgresConnectorConfig config, TableChanges changes, String schemaName) {
        SchemaNameAdjuster adjuster = config.schemaNameAdjuster();
        ConnectTableChangeSerializer serializer = new ConnectTableChangeSerializer(adjuster);
        Schema keys = SchemaFactory.get().schemaHistoryConnectorKeySchema(adjuster, config);
        Schema values = SchemaFactory.get().schemaHistoryConnectorValueSchema(adjuster, config, serializer);
        Struct key = new Struct(keys).put("databaseName", config.databaseName());
        Struct value = new Struct(values)
                .put("source", filled(values.field("source").schema()))
                .put("ts_ms", 0L)
                .put("databaseName", config.databaseName())
                .put("schemaName", schemaName)
                .put("ddl", "")
                .put("tableChanges", serializer.serialize(changes));
        return "{\"key\":" + json(keys, key, true) + ",\"value\":" + json(values, value, false) + "}";
    }

    private static String json(Schema schema, Struct struct, boolean isKey) {
        JsonConverter converter = new JsonConverter();
        converter.configure(Map.of("schemas.enable", "true"), isKey);
        return new String(converter.fromConnectData("", schema, struct), StandardCharsets.UTF_8);
    }

    /** A struct of nothing but what it must have. */
    private static Struct filled(Schema schema) {
        Struct struct = new Struct(schema);
        for (Field field : schema.fields()) {
            if (!field.schema().isOptional()) {
                struct.put(field, field.schema().type() == Schema.Type.STRING ? "" : (Object) 0L);
            }
        }
        return struct;
    }
}
