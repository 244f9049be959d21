import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;

/** Asks a server by JDBC what clients ask of slots, and prints what it gets. */
public class AskServer {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.setProperty("user", arguments[1]);
        properties.setProperty("prepareThreshold", "2");
        properties.setProperty("ApplicationName", "AskServer");
        for (String isBinary : new String[] {"true", "false"}) {
            properties.setProperty("binaryTransfer", isBinary);
            try (Connection connection = DriverManager.getConnection(arguments[0], properties)) {
                ask(connection);
            }
        }
    }

    private static void ask(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            for (String query : new String[] {"SELECT 1", "SHOW application_name", "SELECT current_database(), current_user"}) {
                print(statement.executeQuery(query));
            }
            statement.execute("SET statement_timeout = 10000; SHOW statement_timeout");
            System.out.println(statement.getUpdateCount());
            System.out.println(connection.isValid(5) + " " + connection.getTransactionIsolation());
        }
        String changes = "SELECT lsn::text, xid::text, data FROM pg_logical_slot_peek_changes(?, ?::pg_lsn, ?)";
        String slots = "select * from pg_replication_slots where slot_name = ? and database = ? and plugin = ?";
        for (int run = 0; run < 4; run++) {
            try (PreparedStatement asked = connection.prepareStatement(changes)) {
                asked.setString(1, "s");
                asked.setNull(2, java.sql.Types.VARCHAR);
                asked.setInt(3, 5 + run);
                print(asked.executeQuery());
            }
            try (PreparedStatement asked = connection.prepareStatement(slots)) {
                asked.setString(1, "s");
                asked.setString(2, "postgres");
                asked.setString(3, "test_decoding");
                ResultSet slot = asked.executeQuery();
                slot.next();
                System.out.println(slot.getBoolean("active") + " " + (slot.getString("restart_lsn") != null)
                        + " " + slot.getString("slot_type") + " " + slot.getMetaData().getColumnCount());
            }
        }
        connection.setAutoCommit(false);
        try (PreparedStatement asked = connection.prepareStatement(changes)) {
            asked.setFetchSize(2);
            asked.setString(1, "s");
            asked.setNull(2, java.sql.Types.VARCHAR);
            asked.setNull(3, java.sql.Types.INTEGER);
            print(asked.executeQuery());
        }
        try (Statement statement = connection.createStatement()) {
            statement.executeQuery("SELECT pg_drop_replication_slot('none')");
        } catch (SQLException error) {
            System.out.println(error.getSQLState() + " " + error.getMessage());
        }
        connection.rollback();
        connection.setReadOnly(true);
        try (Statement statement = connection.createStatement()) {
            print(statement.executeQuery("SHOW transaction_read_only"));
        }
        connection.commit();
    }

    private static void print(ResultSet rows) throws SQLException {
        ResultSetMetaData columns = rows.getMetaData();
        while (rows.next()) {
            for (int column = 1; column <= columns.getColumnCount(); column++) {
                System.out.print(columns.getColumnLabel(column) + "=" + rows.getString(column) + " ");
            }
            System.out.println();
        }
    }
}
