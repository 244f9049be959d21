import io.debezium.connector.postgresql.PostgisGeometry;
import io.debezium.data.geometry.Geography;
import io.debezium.data.geometry.Geometry;
import io.debezium.data.geometry.Point;
import io.debezium.data.vector.DoubleVector;
import io.debezium.data.vector.FloatVector;
import io.debezium.data.vector.SparseDoubleVector;
import java.io.BufferedReader;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.json.JsonConverter;
import org.postgresql.geometric.PGpoint;

/**
 * Prints what the connector's classes make of values of types that come with extensions, and of points.
 *
 * <p>Arguments: a file of lines {@code type<TAB>text as the server prints it}, and the file that is written: a line of
 * JSON with schema and payload for each.
 */
final class PrintValues {
    private PrintValues() {}

    public static void main(String[] files) throws Exception {
        JsonConverter converter = new JsonConverter();
        converter.configure(Map.of("schemas.enable", "true"), false);
        try (BufferedReader reader = Files.newBufferedReader(Path.of(files[0]), StandardCharsets.UTF_8);
                PrintWriter out = new PrintWriter(Files.newBufferedWriter(Path.of(files[1]), StandardCharsets.UTF_8))) {
            for (String line = reader.readLine(); line != null; line = reader.readLine()) {
                String[] parts = line.split("\t", 2);
                Schema schema = schemaOf(parts[0]);
                Schema row = SchemaBuilder.struct().field("c", schema).build();
                Struct struct = new Struct(row).put("c", valueOf(parts[0], schema, parts[1]));
                out.println(new String(converter.fromConnectData("", row, struct), StandardCharsets.UTF_8));
            }
        }
    }

    private static Schema schemaOf(String type) {
        return (switch (type) {
            case "point" -> Point.builder();
            case "geometry" -> Geometry.builder();
            case "geography" -> Geography.builder();
            case "vector" -> DoubleVector.builder();
            case "halfvec" -> FloatVector.builder();
            default -> SparseDoubleVector.builder();
        }).optional().build();
    }

    private static Object valueOf(String type, Schema schema, String text) throws Exception {
        switch (type) {
            case "point":
                PGpoint point = new PGpoint(text);
                return Point.createValue(schema, point.x, point.y);
            case "geometry":
                PostgisGeometry geometry = PostgisGeometry.fromHexEwkb(text);
                return Geometry.createValue(schema, geometry.getWkb(), geometry.getSrid());
            case "geography":
                PostgisGeometry geography = PostgisGeometry.fromHexEwkb(text);
                return Geography.createValue(schema, geography.getWkb(), geography.getSrid());
            case "vector":
                return DoubleVector.fromLogical(schema, text);
            case "halfvec":
                return FloatVector.fromLogical(schema, text);
            default:
                return SparseDoubleVector.fromLogical(schema, text);
        }
    }
}
