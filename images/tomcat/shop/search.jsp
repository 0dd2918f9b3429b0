<%@ page session="false" contentType="text/html; charset=utf-8" import="java.util.*" %><%@ include file="WEB-INF/db.jspf" %><%!
    // Articles by the words in their names. The index is made when the page is first needed; a web
    // application that wants it at its start says so in its web.xml (load-on-startup).
    private static final int ARTICLES = 60_000;
    private static final String[] SYLLABLES = "ba co di fu ga he ji ko lu ma ne po qui ro su te".split(" ");
    private Map<String, List<String>> index;

    @Override
    public void jspInit() {
        Map<String, List<String>> made = new TreeMap<>();
        Random random = new Random(42);
        for (int i = 0; i < ARTICLES; i++) {
            StringJoiner name = new StringJoiner(" ");
            for (int word = 0; word < 4; word++) {
                StringBuilder syllables = new StringBuilder();
                for (int s = 0; s < 3; s++) syllables.append(SYLLABLES[random.nextInt(SYLLABLES.length)]);
                name.add(syllables);
            }
            String words = name.toString();
            String article = String.format(Locale.ROOT, "%s, %d.%02d", words, random.nextInt(100), random.nextInt(100));
            for (String word : words.split(" ")) made.computeIfAbsent(word, w -> new ArrayList<>(4)).add(article);
        }
        for (List<String> articles : made.values()) Collections.sort(articles);
        index = made;
    }
%><%
    String word = request.getParameter("word");
    List<String> found = index.getOrDefault(word == null ? "" : word, List.of());
%><!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Search</title></head>
<body>
<h1><%= found.size() %> articles</h1>
<ul>
<% for (String article : found) { %><li><%= html(article) %></li>
<% } %></ul>
</body>
</html>
