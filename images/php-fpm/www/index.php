<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Welcome</title></head>
<body>
<h1>Welcome</h1>
<p>This page was made by PHP at <?= date('c') ?>.</p>
</body>
</html>
