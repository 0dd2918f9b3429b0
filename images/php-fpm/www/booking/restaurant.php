<?php
// GET token, restaurant, date, time, guests: a restaurant and its free tables.
declare(strict_types=1);

require __DIR__ . '/input.php';

$token = text($_GET, 'token', '/^[a-z0-9-]{1,32}$/D');
$restaurant = number($_GET, 'restaurant');
$guests = number($_GET, 'guests');
$date = date_in($_GET);
$time = time_in($_GET);

token($token) ?: throw new Refused('no such token', 403);
$here = restaurant($restaurant) ?: throw new Refused('no such restaurant', 404);
$taken = taken($restaurant, $date, $time);
$free = array_filter(
    bookable($token, $restaurant, $time, $guests),
    fn (array $table): bool => !in_array($table['number'], $taken)
);
$html = fn (string $text): string => htmlspecialchars($text);
?>
<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title><?= $html($here['name']) ?></title></head>
<body>
<h1><?= $html($here['name']) ?>, <?= $html($here['city']) ?></h1>
<p><?= $html($date) ?>, <?= $html($time) ?>: <?= count($free) ?> free tables for <?= $guests ?>.</p>
<ul>
<?php foreach ($free as $table): ?>
<li>Table <?= $table['number'] ?>, <?= $table['seats'] ?> seats</li>
<?php endforeach ?>
</ul>
</body>
</html>
