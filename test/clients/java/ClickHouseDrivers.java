import com.clickhouse.client.api.Client;
import com.clickhouse.client.api.query.QueryResponse;
import com.clickhouse.client.api.query.QuerySettings;
import com.clickhouse.data.ClickHouseFormat;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.Properties;
import java.util.concurrent.TimeUnit;

/** ClickHouse's Java client and JDBC drivers, unchanged, as an analyst. Prints a line for each scenario: its name, a tab, and what it saw. */
public final class ClickHouseDrivers {
    private static final String ADDRESS = System.getenv("CLICKHOUSE_ADDRESS");
    private static final String PASSWORD = System.getenv("CLICKHOUSE_PASSWORD");

    private interface Scenario {
        String run() throws Exception;
    }

    public static void main(String[] args) {
        scenario("client", () -> client(newClient().build()));
        scenario("client without compression", () -> client(newClient().compressServerResponse(false).build()));
        scenario("client with HTTP compression", () -> client(newClient().useHttpCompression(true).build()));
        scenario("client in a session", () -> client(newClient().serverSetting("session_id", "java").build()));
        scenario("client waits for the end", ClickHouseDrivers::summary);
        scenario("client refused", ClickHouseDrivers::refused);
        scenario("jdbc", () -> jdbc("", new Properties()));
        scenario("jdbc v1", () -> jdbc("?clickhouse.jdbc.v1=true", new Properties()));
        scenario("jdbc v1 with compressed requests", () -> jdbc("?clickhouse.jdbc.v1=true&decompress=1", new Properties()));
        scenario("jdbc v1 waits for the end", () -> jdbc("?clickhouse.jdbc.v1=true&custom_http_params=wait_end_of_query=1", new Properties()));
        System.exit(0);
    }

    private static Client.Builder newClient() {
        return new Client.Builder()
            .addEndpoint("http://" + ADDRESS)
            .setUsername("analyst")
            .setPassword(PASSWORD)
            .setDefaultDatabase("shop");
    }

    private static String client(Client opened) {
        try (Client client = opened) {
            StringBuilder rows = new StringBuilder();
            client.queryAll("SELECT id, name FROM items ORDER BY id")
                .forEach(row -> rows.append(row.getLong("id")).append('=').append(row.getString("name")).append(';'));
            long sum = 0;
            for (var row : client.queryAll("SELECT number, toString(number) AS text FROM numbers(50000)")) {
                sum += row.getLong("number");
            }
            return rows + " " + sum;
        }
    }

    private static String summary() throws Exception {
        QuerySettings settings = new QuerySettings().setFormat(ClickHouseFormat.TabSeparated).serverSetting("wait_end_of_query", "1");
        try (Client client = newClient().build();
            QueryResponse answer = client.query("SELECT number FROM numbers(7)", settings).get(30, TimeUnit.SECONDS)) {
            BufferedReader lines = new BufferedReader(new InputStreamReader(answer.getInputStream(), StandardCharsets.UTF_8));
            return answer.getResultRows() + " " + lines.lines().count();
        }
    }

    private static String refused() throws Exception {
        try (Client client = newClient().build()) {
            client.queryAll("SELECT * FROM nothing");
            return "nothing";
        } catch (Exception error) {
            Throwable cause = error;
            while (cause.getCause() != null && !String.valueOf(cause.getMessage()).contains("DB::")) cause = cause.getCause();
            return oneLine(cause.getMessage());
        }
    }

    private static String jdbc(String options, Properties properties) throws SQLException {
        properties.setProperty("user", "analyst");
        properties.setProperty("password", PASSWORD);
        try (Connection connection = DriverManager.getConnection("jdbc:clickhouse://" + ADDRESS + "/shop" + options, properties)) {
            StringBuilder seen = new StringBuilder();
            try (PreparedStatement statement = connection.prepareStatement("SELECT id, name FROM items WHERE id >= ? ORDER BY id")) {
                statement.setInt(1, 1);
                try (ResultSet rows = statement.executeQuery()) {
                    while (rows.next()) seen.append(rows.getInt("id")).append('=').append(rows.getString(2)).append(';');
                }
            }
            long sum = 0;
            try (var statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT number FROM numbers(50000)")) {
                while (rows.next()) sum += rows.getLong(1);
            }
            seen.append(' ').append(sum);
            try (ResultSet tables = connection.getMetaData().getTables(null, "shop", "items", null)) {
                while (tables.next()) seen.append(' ').append(tables.getString("TABLE_NAME"));
            }
            try (var statement = connection.createStatement()) {
                statement.executeQuery("SELECT nonsense");
            } catch (SQLException error) {
                seen.append(error.getMessage().contains("UNKNOWN_IDENTIFIER") ? " refused" : " " + oneLine(error.getMessage()));
            }
            return seen.toString();
        }
    }

    private static void scenario(String name, Scenario scenario) {
        String seen;
        try {
            seen = scenario.run();
        } catch (Throwable error) {
            seen = "failed: " + oneLine(String.valueOf(error));
            error.printStackTrace();
        }
        System.out.println(name + "\t" + seen);
    }

    private static String oneLine(String text) {
        return text == null ? "" : text.replaceAll("\\s+", " ");
    }
}
