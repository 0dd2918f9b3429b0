<?php
// POST token, restaurant, table, date, time, guests, name: book a table.
// 201 booked · 400 not in its form · 403 no such token · 404 no such restaurant or table
// 405 no POST · 409 taken · 422 against the rules of the house
declare(strict_types=1);

require __DIR__ . '/input.php';

if ($_SERVER['REQUEST_METHOD'] !== 'POST') {
    header('Allow: POST');
    throw new Refused('orders are sent with POST', 405);
}
$token = text($_POST, 'token', '/^[a-z0-9-]{1,32}$/D');
$restaurant = number($_POST, 'restaurant');
$number = number($_POST, 'table');
$guests = number($_POST, 'guests');
$date = date_in($_POST);
$time = time_in($_POST);
$name = text($_POST, 'name', '/^[^\x00-\x1f]{1,60}$/uD');

token($token) ?: throw new Refused('no such token', 403);
restaurant($restaurant) ?: throw new Refused('no such restaurant', 404);

$today = date('Y-m-d');
$last = date('Y-m-d', strtotime('+' . setting($restaurant, 'days_ahead') . ' days'));
if ($date < $today || $date > $last) {
    throw new Refused("date: from $today to $last", 422);
}
$known = array_column(tables($restaurant), null, 'number');
isset($known[$number]) ?: throw new Refused('no such table', 404);
$bookable = array_column(bookable($token, $restaurant, $time, $guests), null, 'number');
isset($bookable[$number]) ?: throw new Refused('not this table, for so many, at this time', 422);
!in_array($number, taken($restaurant, $date, $time)) ?: throw new Refused('taken', 409);

$id = order($known[$number], token($token), $date, $time, $guests, $name);
http_response_code(201);
header('Content-Type: application/json');
echo json_encode([
    'order' => $id,
    'restaurant' => restaurant($restaurant)['name'],
    'table' => $number,
    'until' => plus($time, setting($restaurant, 'sitting_minutes')),
    'other_tables' => array_keys($bookable),
], JSON_UNESCAPED_UNICODE), "\n";
