<?php
// What differs from one installation to the next.
return [
    'dsn' => 'mysql:host=db;dbname=booking;charset=utf8mb4',
    'user' => 'booking',
    'password' => 'booking',
    'persistent' => true, // keep the connection for the next request of this worker
];
