<?php
// Asks the reservation book of the restaurant, which takes its time: 50 ms of waiting, no work.
usleep(50_000);
header('Content-Type: application/json');
echo json_encode(['restaurant' => 'Old Mill', 'tables' => random_int(0, 12)]), "\n";
