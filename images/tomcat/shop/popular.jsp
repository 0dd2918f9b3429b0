<%@ page session="false" contentType="text/html; charset=utf-8" import="java.sql.*" %><%@ include file="WEB-INF/db.jspf" %><%!
    // For which restaurants to give somebody a voucher: those that most people went to in a month.
    private static final String RESTAURANTS =
        "SELECT r.name, COUNT(*) AS evenings, SUM(o.guests) AS guests"
        + " FROM booking.orders o JOIN booking.restaurants r ON r.id = o.restaurant_id"
        + " WHERE MONTH(o.dining_date) = ? GROUP BY r.id ORDER BY guests DESC, r.id LIMIT 10";
    private static final String CITIES =
        "SELECT r.city, COUNT(*) AS evenings, SUM(o.guests) AS guests"
        + " FROM booking.restaurants r JOIN booking.orders o ON o.restaurant_id = r.id"
        + " WHERE MONTH(o.dining_date) = ? GROUP BY r.city ORDER BY guests DESC";
    private static final String PARTNERS =
        "SELECT COUNT(*) FROM booking.tokens WHERE NOT revoked";

    private static String table(Connection db, String sql, int month) throws SQLException {
        StringBuilder rows = new StringBuilder("<table>\n");
        try (PreparedStatement query = db.prepareStatement(sql)) {
            query.setInt(1, month);
            ResultSet found = query.executeQuery();
            while (found.next()) {
                rows.append("<tr><td>").append(html(found.getString(1))).append("</td><td>")
                    .append(found.getInt(3)).append("</td></tr>\n");
            }
        }
        return rows.append("</table>\n").toString();
    }
%><%
    int month = number(request.getParameter("month"), 1, 1, 12);
    if (month < 0) {
        response.sendError(400, "month: 1 to 12");
        return;
    }
    String restaurants, cities;
    int partners;
    try (Connection db = db()) {
        restaurants = table(db, RESTAURANTS, month);
        cities = table(db, CITIES, month);
        ResultSet counted = db.createStatement().executeQuery(PARTNERS);
        counted.next();
        partners = counted.getInt(1);
    } catch (SQLException error) {
        log("popular.jsp: " + error.getMessage());
        response.sendError(503, "please try again later");
        return;
    }
%><!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Popular restaurants</title></head>
<body>
<h1>Where people like to go</h1>
<p>Guests in month <%= month %>, by orders of <%= partners %> partners.</p>
<%= restaurants %><%= cities %></body>
</html>
