// Seagate's client library on drives of Kist: Check HOST PORT TLS_PORT PEER_PORT. One line for each thing that was
// looked at; the exit code is 1 if any of them was not as it should be.

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import kinetic.admin.ACL;
import kinetic.admin.AdminClientConfiguration;
import kinetic.admin.Domain;
import kinetic.admin.KineticAdminClient;
import kinetic.admin.KineticAdminClientFactory;
import kinetic.admin.Role;
import kinetic.client.AsyncKineticException;
import kinetic.client.CallbackHandler;
import kinetic.client.CallbackResult;
import kinetic.client.ClientConfiguration;
import kinetic.client.Entry;
import kinetic.client.EntryMetadata;
import kinetic.client.KineticClient;
import kinetic.client.KineticClientFactory;
import kinetic.client.advanced.PersistOption;
import kinetic.client.p2p.KineticP2PClientFactory;
import kinetic.client.p2p.KineticP2pClient;
import kinetic.client.p2p.Operation;
import kinetic.client.p2p.Peer;
import kinetic.client.p2p.PeerToPeerOperation;

public class Check {
    interface Act {
        Object run() throws Exception;
    }

    static int failed = 0;

    static void is(String what, Object expected, Act act) {
        String found;
        try {
            found = text(act.run());
        } catch (Throwable error) {
            found = error.getClass().getSimpleName() + ": " + error.getMessage();
        }
        boolean good = expected instanceof String word && word.startsWith("~")
                ? found.contains(word.substring(1))
                : found.equals(text(expected));
        System.out.println((good ? "ok " : "FAILED ") + what + (good ? "" : ": " + found + ", expected " + text(expected)));
        failed += good ? 0 : 1;
    }

    static String text(Object value) {
        if (value instanceof byte[] bytes) {
            return bytes.length > 40 ? bytes.length + " bytes, " + Arrays.hashCode(bytes) : new String(bytes);
        }
        if (value instanceof Entry entry) {
            return text(entry.getKey()) + "@" + text(entry.getEntryMetadata().getVersion()) + "=" + text(entry.getValue());
        }
        if (value instanceof Iterable<?> all) {
            List<String> texts = new ArrayList<>();
            all.forEach(one -> texts.add(text(one)));
            return String.join(" ", texts);
        }
        return String.valueOf(value);
    }

    static byte[] b(String text) {
        return text.getBytes();
    }

    static Entry entry(String key, String version, byte[] value) {
        return new Entry(b(key), value, new EntryMetadata(version == null ? null : b(version), null, null));
    }

    static Entry entry(String key, String version, String value) {
        return entry(key, version, b(value));
    }

    static byte[] noise(int length, long seed) {
        byte[] bytes = new byte[length];
        new java.util.Random(seed).nextBytes(bytes);
        return bytes;
    }

    static <C extends ClientConfiguration> C configured(C configuration, String host, int port, boolean tls) {
        configuration.setHost(host);
        configuration.setPort(port);
        configuration.setUseSsl(tls);
        configuration.setUserId(1);
        configuration.setKey("asdfasdf");
        configuration.setRequestTimeoutMillis(20_000);
        return configuration;
    }

    public static void main(String[] arguments) throws Exception {
        java.util.logging.LogManager.getLogManager().reset();
        String host = arguments[0];
        int port = Integer.parseInt(arguments[1]);
        int tlsPort = Integer.parseInt(arguments[2]);
        int peerPort = Integer.parseInt(arguments[3]);
        data("plain", KineticP2PClientFactory.createP2pClient(configured(new ClientConfiguration(), host, port, false)));
        data("TLS", KineticP2PClientFactory.createP2pClient(configured(new ClientConfiguration(), host, tlsPort, true)));
        push(host, port, peerPort);
        administer(host, port, tlsPort);
        System.exit(failed == 0 ? 0 : 1);
    }

    static void data(String over, KineticP2pClient k) throws Exception {
        String p = over + " ";
        is(p + "noop", true, () -> k.noop() >= 0);
        is(p + "put", p + "a@1=one", () -> k.put(entry(p + "a", null, "one"), b("1")));
        is(p + "put of a stale version", "~VersionMismatch", () -> k.put(entry(p + "a", "9", "x"), b("2")));
        is(p + "put of the next version", p + "a@2=two", () -> k.put(entry(p + "a", "1", "two"), b("2")));
        is(p + "put forced", p + "b@7=b", () -> k.putForced(entry(p + "b", "7", "b")));
        is(p + "put written back", p + "c@1=c", () -> k.put(entry(p + "c", null, "c"), b("1"), PersistOption.ASYNC));
        is(p + "flush", "done", () -> {
            k.flush();
            return "done";
        });
        is(p + "get", p + "a@2=two", () -> k.get(b(p + "a")));
        is(p + "get of none", "null", () -> k.get(b(p + "z")));
        is(p + "version", "7", () -> k.getVersion(b(p + "b")));
        is(p + "metadata", "7", () -> k.getMetadata(b(p + "b")).getVersion());
        is(p + "next", p + "b@7=b", () -> k.getNext(b(p + "a")));
        is(p + "previous", p + "a@2=two", () -> k.getPrevious(b(p + "b")));
        is(p + "range", p + "a " + p + "b " + p + "c", () -> k.getKeyRange(b(p + "a"), true, b(p + "z"), true, 10));
        is(p + "range reversed", p + "c " + p + "b",
                () -> k.getKeyRangeReversed(b(p + "a"), true, b(p + "z"), true, 2));
        is(p + "range without its ends", p + "b", () -> k.getKeyRange(b(p + "a"), false, b(p + "c"), false, 10));
        byte[] large = noise(1 << 20, 1);
        is(p + "put of 1 MiB", p + "large", () -> k.putForced(entry(p + "large", "1", large)).getKey());
        is(p + "get of 1 MiB", large, () -> k.get(b(p + "large")).getValue());
        is(p + "put of a byte more", "~Exception",
                () -> k.putForced(entry(p + "large", "1", noise((1 << 20) + 1, 1))).getKey());
        is(p + "delete of a stale version", "~VersionMismatch", () -> k.delete(entry(p + "a", "1", "")));
        is(p + "delete", true, () -> k.delete(entry(p + "a", "2", "")));
        is(p + "delete of none", false, () -> k.delete(entry(p + "a", "2", "")));
        is(p + "delete forced of none", true, () -> k.deleteForced(b(p + "a")));
        is(p + "batch", "1 null", () -> {
            var batch = k.createBatchOperation();
            batch.put(entry(p + "d", null, "d"), b("1"));
            batch.putForced(entry(p + "e", "1", "e"));
            batch.deleteForced(b(p + "c"));
            batch.commit();
            return text(k.getVersion(b(p + "d"))) + " " + text(k.get(b(p + "c")));
        });
        is(p + "batch that fails", "~BatchAborted", () -> {
            var batch = k.createBatchOperation();
            batch.put(entry(p + "f", null, "d"), b("1"));
            batch.put(entry(p + "d", "9", "e"), b("2"));
            batch.commit();
            return "committed";
        });
        is(p + "nothing of it is there", "null", () -> k.get(b(p + "f")));
        is(p + "batch given up", "null", () -> {
            var batch = k.createBatchOperation();
            batch.put(entry(p + "f", null, "d"), b("1"));
            batch.abort();
            return k.get(b(p + "f"));
        });
        int many = 300;
        is(p + many + " puts at a time", "0 late, 0 bad", () -> {
            var done = new CountDownLatch(many);
            var bad = new AtomicInteger();
            for (int number = 0; number < many; number++) {
                k.putForcedAsync(entry(p + "many " + number, "1", noise(5_000, number)), new CallbackHandler<Entry>() {
                    public void onSuccess(CallbackResult<Entry> result) {
                        done.countDown();
                    }

                    public void onError(AsyncKineticException error) {
                        bad.incrementAndGet();
                        done.countDown();
                    }
                });
                // No more than the drive lets a connection have under way: what is beyond is refused as busy.
                if (number % 8 == 7) {
                    k.noop();
                    while (done.getCount() > many - number - 1) {
                        Thread.onSpinWait();
                    }
                }
            }
            done.await(30, TimeUnit.SECONDS);
            return done.getCount() + " late, " + bad + " bad";
        });
        is(p + "what they put", noise(5_000, 299), () -> k.get(b(p + "many 299")).getValue());
        k.close();
    }

    // Pushes a key to keys of another drive.
    static List<String> statuses(KineticP2pClient k, String host, int port, String key, String... to) throws Exception {
        var peer = new Peer();
        peer.setHost(host);
        peer.setPort(port);
        var push = new PeerToPeerOperation();
        push.setPeer(peer);
        for (String one : to) {
            var operation = new Operation();
            operation.setKey(b(key));
            operation.setNewKey(b(one));
            operation.setForced(true);
            push.addOperation(operation);
        }
        List<String> statuses = new ArrayList<>();
        k.PeerToPeerPush(push).getOperationList().forEach(one -> statuses.add("" + one.getStatus()));
        return statuses;
    }

    static void push(String host, int port, int peerPort) throws Exception {
        var k = KineticP2PClientFactory.createP2pClient(configured(new ClientConfiguration(), host, port, false));
        byte[] value = noise(300_000, 4);
        k.putForced(entry("push a", "1", value));
        is("push", "true true", () -> statuses(k, host, peerPort, "push a", "push a", "push b"));
        // The library tells no more of one that failed in part.
        is("push of what is not there", "~NESTED_OPERATION_ERRORS",
                () -> statuses(k, host, peerPort, "push none", "push none"));
        KineticClient there = KineticClientFactory.createInstance(configured(new ClientConfiguration(), host, peerPort, false));
        is("what was pushed", value, () -> there.get(b("push a")).getValue());
        is("what was pushed under another name", value, () -> there.get(b("push b")).getValue());
        there.close();
        k.close();
    }

    static void administer(String host, int port, int tlsPort) throws Exception {
        KineticAdminClient plain =
                KineticAdminClientFactory.createInstance(configured(new AdminClientConfiguration(), host, port, false));
        is("log", "Kist 1048576 true true", () -> {
            var log = plain.getLog();
            return text(log.getConfiguration().getVendor()) + " " + log.getLimits().getMaxValueSize() + " "
                    + (log.getCapacity().getPortionFull() > 0) + " " + (log.getStatistics().size() > 5);
        });
        is("log of the maker", "~get-part/1",
                () -> new String(plain.getVendorSpecificDeviceLog(b("kist.extensions")).getValue()));
        is("another log of the maker", "~NotFound", () -> plain.getVendorSpecificDeviceLog(b("x")));
        is("an erase PIN without TLS", "~Exception", () -> {
            plain.setErasePin(b(""), b("p"));
            return "set";
        });
        plain.close();
        KineticAdminClient admin =
                KineticAdminClientFactory.createInstance(configured(new AdminClientConfiguration(), host, tlsPort, true));
        is("access lists", "set", () -> {
            var all = new Domain();
            all.setRoles(List.of(Role.values()));
            var first = new ACL();
            first.setUserId(1);
            first.setKey("asdfasdf");
            first.setDomains(List.of(all));
            var some = new Domain();
            some.setOffset(0);
            some.setValue("plain");
            some.setRoles(List.of(Role.READ, Role.RANGE));
            var reader = new ACL();
            reader.setUserId(2);
            reader.setKey("reader");
            reader.setDomains(List.of(some));
            admin.setAcl(List.of(first, reader));
            return "set";
        });
        var configuration = configured(new ClientConfiguration(), host, port, false);
        configuration.setUserId(2);
        configuration.setKey("reader");
        KineticClient reader = KineticClientFactory.createInstance(configuration);
        is("a reader reads", "plain b@7=b", () -> reader.get(b("plain b")));
        is("and nothing else", "~NOT_AUTHORIZED", () -> reader.get(b("TLS b")));
        is("nor writes", "~NOT_AUTHORIZED", () -> reader.putForced(entry("plain x", "1", "x")));
        is("and sees its own keys", "plain b plain d", () -> reader.getKeyRange(b("a"), true, b("plain d"), true, 10));
        reader.close();
        is("PINs over TLS, lock and unlock", "locked and unlocked", () -> {
            admin.setLockPin(b(""), b("lock"));
            admin.lockDevice(b("lock"));
            admin.unLockDevice(b("lock"));
            return "locked and unlocked";
        });
        is("cluster version", "set", () -> {
            admin.setClusterVersion(3);
            return "set";
        });
        is("another cluster version is kept out", "~VERSION_FAILURE", () -> {
            var k = KineticClientFactory.createInstance(configured(new ClientConfiguration(), host, port, false));
            try {
                return k.get(b("plain b"));
            } finally {
                k.close();
            }
        });
        is("erase", "null", () -> {
            admin.close();
            var c = configured(new AdminClientConfiguration(), host, tlsPort, true);
            c.setClusterVersion(3);
            var again = KineticAdminClientFactory.createInstance(c);
            again.setErasePin(b(""), b("erase"));
            again.instantErase(b("erase"));
            again.close();
            var k = KineticClientFactory.createInstance(configured(new ClientConfiguration(), host, port, false));
            try {
                return k.get(b("plain b"));
            } finally {
                k.close();
            }
        });
    }
}
