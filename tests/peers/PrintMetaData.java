import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;

/**
 * Prints what JDBC's metadata says of a schema, a row a line.
 *
 * <p>Arguments: the URL, the user, the schema.
 */
final class PrintMetaData {
    private PrintMetaData() {}

    public static void main(String[] arguments) throws SQLException {
        String schema = arguments[2];
        try (Connection connection = DriverManager.getConnection(arguments[0], arguments[1], "")) {
            DatabaseMetaData data = connection.getMetaData();
            print("tables", data.getTables(null, schema, "%", null));
            print("columns", data.getColumns(null, schema, "%", "%"));
            print("functions", data.getFunctions(null, schema, "%"));
            print("procedures", data.getProcedures(null, schema, "%"));
            print("types", data.getUDTs(null, schema, "%", null));
            print("type info", data.getTypeInfo());
            print("schemas", data.getSchemas());
            print("privileges", data.getTablePrivileges(null, schema, "%"));
            try (ResultSet tables = data.getTables(null, schema, "%", new String[] {"TABLE", "PARTITIONED TABLE"})) {
                while (tables.next()) {
                    String table = tables.getString("TABLE_NAME");
                    print("keys of " + table, data.getPrimaryKeys(null, schema, table));
                    print("indexes of " + table, data.getIndexInfo(null, schema, table, false, true));
                    print("imported of " + table, data.getImportedKeys(null, schema, table));
                    print("exported of " + table, data.getExportedKeys(null, schema, table));
                    print("best row of " + table, data.getBestRowIdentifier(null, schema, table, 0, true));
                    print("columns' privileges of " + table, data.getColumnPrivileges(null, schema, table, "%"));
                }
            }
        }
    }

    private static void print(String what, ResultSet rows) throws SQLException {
        System.out.println(what);
        int count = rows.getMetaData().getColumnCount();
        while (rows.next()) {
            StringBuilder line = new StringBuilder(" ");
            for (int column = 1; column <= count; column++) {
                line.append(' ').append(rows.getMetaData().getColumnName(column)).append('=');
                line.append(rows.getString(column));
            }
            System.out.println(line);
        }
        rows.close();
    }
}
