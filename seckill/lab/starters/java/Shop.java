import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.URI;
import java.net.URLDecoder;
import java.nio.ByteBuffer;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import javax.crypto.Mac;
import javax.crypto.SecretKeyFactory;
import javax.crypto.spec.PBEKeySpec;
import javax.crypto.spec.SecretKeySpec;

import static java.nio.charset.StandardCharsets.UTF_8;

/**
 * A shop in one file, with the JDK (17 or later) alone: the lab sends it a crowd and counts what it sold.
 *
 * <pre>
 *   javac -d /tmp/shop seckill/lab/starters/java/Shop.java
 *   miaosha lab --mine "java -cp /tmp/shop Shop" --processes 2
 * </pre>
 *
 * It oversells. Your work is buy(), below. 本文件是一个店铺，只用 JDK。实验室派一群买家来抢，再数它卖出了什么。它会超卖，要改的是 buy()。
 */
public class Shop {

    // ---- your way to sell: from here ----

    /** Runs once in each process when it starts, also in one that takes the place of a killed one. */
    static void prepare() throws Exception {
    }

    /** One click: returns true if the buyer gets a unit. It runs in many threads and processes at once. */
    static boolean buy(long user) throws Exception {
        return withConnection(db -> {
            int stock = Integer.parseInt(db.query("select stock from item").rows.get(0)[0]);
            if (stock <= 0) {
                return false;
            }
            lookUpPrice(); // meanwhile other buyers read the same stock
            // HERE is the mistake: the stock was read before, and is written as if no one had written it since.
            // 错在这里：库存是先前读的，写的时候却当作没有别人改过。
            // (synchronized does not help: each process has a lock of its own.)
            db.query("update item set stock = " + (stock - 1));
            db.query("insert into orders (user_id) values (" + user + ")");
            return true;
        });
    }

    // ---- your way to sell: to here ----

    static void lookUpPrice() throws InterruptedException {
        Thread.sleep(1);
    }

    public static void main(String[] args) throws Exception {
        System.setProperty("sun.net.httpserver.nodelay", "true");
        for (int i = Integer.parseInt(System.getenv("DATABASE_CONNECTIONS")); i > 0; i--) {
            pool.add(new Postgres(System.getenv("DATABASE_URL")));
        }
        prepare();
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(System.getenv("PORT"))), 128);
        server.setExecutor(Executors.newFixedThreadPool(64));
        server.createContext("/ready", call -> reply(call, 200));
        // Every click is answered after its work is done, so nothing is left to finish.
        server.createContext("/end", call -> reply(call, 200));
        server.createContext("/buy", call -> {
            try {
                // A number: it may stand in the text of a statement.
                long user = Long.parseLong(call.getRequestURI().getQuery().replaceFirst("^user=", ""));
                reply(call, buy(user) ? 200 : 409);
            } catch (Exception e) { // the buyer gets no answer and clicks again
                System.out.println(call.getRequestURI() + ": " + e);
                reply(call, 500);
            }
        });
        server.start();
    }

    static void reply(HttpExchange call, int status) throws IOException {
        call.sendResponseHeaders(status, -1); // no body
        call.close();
    }

    static final BlockingQueue<Postgres> pool = new LinkedBlockingQueue<>(); // connections that no click uses

    interface Work<T> {
        T with(Postgres db) throws Exception;
    }

    /** Lends a connection to one click. After an error it takes a new one: a transaction may be open in the old one. */
    static <T> T withConnection(Work<T> work) throws Exception {
        Postgres db = pool.take();
        try {
            return work.with(db);
        } catch (Exception e) {
            db.socket.close();
            db = new Postgres(System.getenv("DATABASE_URL"));
            throw e;
        } finally {
            pool.add(db);
        }
    }

    /** The rows, each with its columns as text (null for null), and how many rows the last statement touched. */
    static class Result {
        final List<String[]> rows = new ArrayList<>();
        int affected;
    }

    /** An error of Postgres. The code is its SQLSTATE, such as 23505 for a unique index. */
    static class PostgresException extends Exception {
        final String code;

        PostgresException(Map<Character, String> fields) {
            super(fields.get('M'));
            code = fields.get('C');
        }
    }

    /** One connection: the part of Postgres' protocol that this shop needs. A real shop takes a driver (JDBC). */
    static class Postgres {
        final Socket socket;
        private final DataInputStream in;
        private final OutputStream out;
        private final String user, password;
        private String nonce;

        Postgres(String url) throws Exception {
            URI u = URI.create(url);
            String[] account = u.getRawUserInfo().split(":", 2);
            user = URLDecoder.decode(account[0], UTF_8);
            password = account.length > 1 ? URLDecoder.decode(account[1], UTF_8) : "";
            socket = new Socket(u.getHost(), u.getPort() < 0 ? 5432 : u.getPort());
            socket.setTcpNoDelay(true);
            in = new DataInputStream(new BufferedInputStream(socket.getInputStream()));
            out = socket.getOutputStream();
            byte[] start = String.join("\0", "user", user, "database", u.getPath().substring(1), "", "").getBytes(UTF_8);
            out.write(ByteBuffer.allocate(start.length + 8).putInt(start.length + 8).putInt(196608).put(start).array()); // protocol 3.0
            finish();
        }

        /** Runs statements. */
        Result query(String sql) throws Exception {
            send('Q', (sql + "\0").getBytes(UTF_8));
            return finish();
        }

        /** Reads until Postgres is ready for the next query. */
        private Result finish() throws Exception {
            Result result = new Result();
            PostgresException error = null;
            while (true) {
                char kind = (char) in.readUnsignedByte();
                byte[] body = in.readNBytes(in.readInt() - 4);
                switch (kind) {
                    case 'R' -> authenticate(ByteBuffer.wrap(body));
                    case 'D' -> result.rows.add(row(ByteBuffer.wrap(body)));
                    case 'C' -> {
                        String[] words = new String(body, 0, body.length - 1, UTF_8).split(" ");
                        String last = words[words.length - 1];
                        result.affected = last.matches("\\d+") ? Integer.parseInt(last) : 0;
                    }
                    case 'E' -> {
                        Map<Character, String> fields = new HashMap<>();
                        for (String part : new String(body, UTF_8).split("\0")) {
                            if (!part.isEmpty()) {
                                fields.put(part.charAt(0), part.substring(1));
                            }
                        }
                        error = new PostgresException(fields);
                        if ("FATAL".equals(fields.get('S'))) {
                            throw error;
                        }
                    }
                    case 'Z' -> {
                        if (error != null) {
                            throw error;
                        }
                        return result;
                    }
                    default -> { } // notices and settings
                }
            }
        }

        private static String[] row(ByteBuffer body) {
            String[] row = new String[body.getShort()];
            for (int i = 0; i < row.length; i++) {
                int size = body.getInt();
                if (size >= 0) {
                    byte[] text = new byte[size];
                    body.get(text);
                    row[i] = new String(text, UTF_8);
                }
            }
            return row;
        }

        private void send(char kind, byte[] body) throws IOException {
            out.write(ByteBuffer.allocate(body.length + 5).put((byte) kind).putInt(body.length + 4).put(body).array());
        }

        private void authenticate(ByteBuffer body) throws IOException, GeneralSecurityException {
            int method = body.getInt();
            byte[] data = new byte[body.remaining()];
            body.get(data);
            if (method == 3) { // password in the clear
                send('p', (password + "\0").getBytes(UTF_8));
            } else if (method == 5) { // md5
                String inner = md5((password + user).getBytes(UTF_8), new byte[0]);
                send('p', ("md5" + md5(inner.getBytes(UTF_8), data) + "\0").getBytes(UTF_8));
            } else if (method == 10) { // SCRAM-SHA-256 (RFC 5802): the first message
                byte[] random = new byte[18];
                new SecureRandom().nextBytes(random);
                nonce = Base64.getEncoder().encodeToString(random);
                byte[] name = "SCRAM-SHA-256\0".getBytes(UTF_8), first = ("n,,n=,r=" + nonce).getBytes(UTF_8);
                send('p', ByteBuffer.allocate(name.length + 4 + first.length).put(name).putInt(first.length).put(first).array());
            } else if (method == 11) { // SCRAM: the proof
                String server = new String(data, UTF_8);
                Map<Character, String> parts = new HashMap<>();
                for (String part : server.split(",")) {
                    parts.put(part.charAt(0), part.substring(2));
                }
                PBEKeySpec salt = new PBEKeySpec(password.toCharArray(), Base64.getDecoder().decode(parts.get('s')), Integer.parseInt(parts.get('i')), 256);
                byte[] salted = SecretKeyFactory.getInstance("PBKDF2WithHmacSHA256").generateSecret(salt).getEncoded();
                byte[] key = hmac(salted, "Client Key");
                String last = "c=biws,r=" + parts.get('r');
                byte[] signature = hmac(MessageDigest.getInstance("SHA-256").digest(key), "n=,r=" + nonce + "," + server + "," + last);
                for (int i = 0; i < key.length; i++) {
                    key[i] ^= signature[i];
                }
                send('p', (last + ",p=" + Base64.getEncoder().encodeToString(key)).getBytes(UTF_8));
            }
        }

        private static String md5(byte[] a, byte[] b) throws GeneralSecurityException {
            MessageDigest md5 = MessageDigest.getInstance("MD5");
            md5.update(a);
            return HexFormat.of().formatHex(md5.digest(b));
        }

        private static byte[] hmac(byte[] key, String text) throws GeneralSecurityException {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(key, "HmacSHA256"));
            return mac.doFinal(text.getBytes(UTF_8));
        }
    }
}
