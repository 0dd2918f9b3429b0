<%@ page session="false" contentType="text/html; charset=utf-8" import="java.util.concurrent.ThreadLocalRandom" %><%!
    // The latest baskets stay in memory, for "others also bought": as many as fit into half of the heap.
    private static final long ROOM = Runtime.getRuntime().maxMemory() / 2;
    private static final int PAGE = 4096;
    private static final byte[][] LATEST = new byte[1 << 16][];
    private static int first, next;
    private static long bytes;

    /** Keep a basket; the oldest ones go. */
    private static synchronized void keep(byte[] basket) {
        LATEST[next] = basket;
        next = next + 1 & LATEST.length - 1;
        bytes += basket.length;
        while (bytes > ROOM || next == first) {
            bytes -= LATEST[first].length;
            LATEST[first] = null;
            first = first + 1 & LATEST.length - 1;
        }
    }

    /** One of the latest baskets. */
    private static synchronized byte[] any() {
        int kept = next - first & LATEST.length - 1;
        return LATEST[first + ThreadLocalRandom.current().nextInt(kept) & LATEST.length - 1];
    }

    private static int number(String text, int otherwise) {
        return text == null ? otherwise : Integer.parseInt(text);
    }
%><%
    byte[] basket = new byte[number(request.getParameter("kb"), 256) * 1024];
    for (int i = 0; i < basket.length; i += PAGE) basket[i] = (byte) ThreadLocalRandom.current().nextInt();
    keep(basket);
    int common = 0;
    for (int i = number(request.getParameter("others"), 4); i > 0; i--) {
        byte[] other = any();
        for (int j = 0; j < Math.min(basket.length, other.length); j += PAGE) if (basket[j] == other[j]) common++;
    }
%><!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Basket</title></head>
<body>
<h1>Your basket</h1>
<p><%= basket.length / 1024 %> kB, and <%= common %> articles that others also bought.</p>
</body>
</html>
