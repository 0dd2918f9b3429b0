<%@ page session="false" contentType="text/html; charset=utf-8" %><!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Shop</title></head>
<body>
<h1>Shop</h1>
<table>
<% for (int i = 1; i <= 20; i++) { %>
<tr><td>Article <%= i %></td><td><%= Integer.toHexString(i * 0x9e3779b1) %></td><td><%= i * 7 % 100 %>.95</td></tr>
<% } %>
</table>
<p>See your <a href="/basket.jsp">basket</a>.</p>
</body>
</html>
