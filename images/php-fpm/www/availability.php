<?php
// Asks the reservation book of each restaurant, which takes its time: 50 ms of waiting, no work.
$restaurants = max(1, min(60, (int) ($_GET['restaurants'] ?? 1)));
usleep(50_000 * $restaurants);
header('Content-Type: application/json');
echo json_encode(['restaurant' => 'Old Mill', 'tables' => random_int(0, 12)]), "\n";
