import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import io.debezium.engine.format.KeyValueHeaderChangeEventFormat;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/**
 * Prints what Debezium's connector makes of a slot, an event a line, up to a logical message that says where to stop.
 *
 * <p>Arguments: files of properties, each of which makes one engine, one after the other. Of the properties,
 * {@code print.to} is the file that is written and {@code print.end} the prefix of the last message; the others are the
 * engine's.
 */
final class PrintEvents {
    private static final long MINUTES = 5;

    private PrintEvents() {}

    public static void main(String[] files) throws Exception {
        for (String file : files) {
            Properties properties = new Properties();
            try (Reader reader = Files.newBufferedReader(Path.of(file))) {
                properties.load(reader);
            }
            print(properties);
        }
    }

    private static void print(Properties properties) throws Exception {
        String end = (String) properties.remove("print.end");
        String to = (String) properties.remove("print.to");
        CountDownLatch ended = new CountDownLatch(1);
        String[] failure = new String[1];
        try (PrintWriter out = new PrintWriter(Files.newBufferedWriter(Path.of(to), StandardCharsets.UTF_8))) {
            var engine = DebeziumEngine.create(KeyValueHeaderChangeEventFormat.of(Json.class, Json.class, Json.class))
                    .using(properties)
                    .using((success, message, error) -> {
                        if (!success) {
                            failure[0] = message + ": " + error;
                        }
                        ended.countDown();
                    })
                    .notifying(event -> {
                        if (ended.getCount() > 0) {
                            if (isEnd(event, end)) {
                                ended.countDown();
                            } else {
                                out.println(line(event));
                            }
                        }
                    })
                    .build();
            ExecutorService thread = Executors.newSingleThreadExecutor();
            thread.execute(engine);
            boolean hasEnded = ended.await(MINUTES, TimeUnit.MINUTES);
            if (failure[0] == null) {
                engine.close();
            }
            thread.shutdown();
            thread.awaitTermination(1, TimeUnit.MINUTES);
            if (!hasEnded) {
                throw new IOException(to + ": no message " + end + " within " + MINUTES + " minutes");
            }
            if (failure[0] != null) {
                throw new IOException(to + ": " + failure[0]);
            }
        }
    }

    private static boolean isEnd(ChangeEvent<String, String> event, String end) {
        return event.destination().endsWith(".message") && event.value().contains('"' + end + '"');
    }

    private static String line(ChangeEvent<String, String> event) {
        StringBuilder line = new StringBuilder("{\"topic\":\"").append(event.destination()).append("\"");
        event.headers().forEach(header -> line.append(",\"").append(header.getKey()).append("\":").append(header.getValue()));
        return line.append(",\"key\":").append(event.key()).append(",\"value\":").append(event.value()).append('}').toString();
    }
}
