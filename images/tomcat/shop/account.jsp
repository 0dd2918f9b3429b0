<%@ page session="false" contentType="text/html; charset=utf-8" import="java.sql.*" %><%@ include file="WEB-INF/db.jspf" %><%!
    // What a customer of the warehouse has bought, at the price of the day, the dearest first.
    private static final String BOUGHT =
        "SELECT p.p_name, l.l_quantity, l.l_quantity * h.h_price AS paid"
        + " FROM warehouse.orders o"
        + " JOIN warehouse.lineitem l ON l.l_orderkey = o.o_orderkey"
        + " JOIN warehouse.part p ON p.p_partkey = l.l_partkey"
        + " JOIN warehouse.price_history h ON h.h_partkey = l.l_partkey"
        + " AND h.h_from <= l.l_shipdate AND h.h_until > l.l_shipdate"
        + " WHERE o.o_custkey = ? ORDER BY paid DESC, l.l_orderkey, l.l_linenumber LIMIT 20";
%><%
    int customer = number(request.getParameter("customer"), 1, 1, 999999999);
    if (customer < 0) {
        response.sendError(400, "customer: a number is wanted");
        return;
    }
    StringBuilder rows = new StringBuilder();
    try (Connection db = db(); PreparedStatement query = db.prepareStatement(BOUGHT)) {
        query.setInt(1, customer);
        ResultSet found = query.executeQuery();
        while (found.next()) {
            rows.append("<tr><td>").append(html(found.getString(1))).append("</td><td>").append(found.getInt(2))
                .append("</td><td>").append(found.getBigDecimal(3)).append("</td></tr>\n");
        }
    } catch (SQLException error) {
        log("account.jsp: " + error.getMessage());
        response.sendError(503, "please try again later");
        return;
    }
    if (rows.length() == 0) {
        response.sendError(404, "no such customer, or nothing bought");
        return;
    }
%><!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Your account</title></head>
<body>
<h1>What you have bought</h1>
<table>
<%= rows %></table>
</body>
</html>
