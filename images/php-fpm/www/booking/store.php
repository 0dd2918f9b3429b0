<?php
// The database: one function for each thing that the pages want to know or to change.
declare(strict_types=1);

function db(): PDO
{
    static $db = null;
    if ($db === null) {
        $config = require __DIR__ . '/config.php';
        $db = new PDO($config['dsn'], $config['user'], $config['password'], [
            PDO::ATTR_PERSISTENT => $config['persistent'],
            PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION,
            PDO::ATTR_DEFAULT_FETCH_MODE => PDO::FETCH_ASSOC,
        ]);
    }
    return $db;
}

/** All rows of a query. */
function ask(string $sql, array $values): array
{
    $statement = db()->prepare($sql);
    $statement->execute($values);
    return $statement->fetchAll();
}

/** One row, empty when there is none, of what does not change while a page is made. */
function lookup(string $sql, string|int ...$values): array
{
    static $seen = [];
    $key = $sql . implode('|', $values);
    return $seen[$key] ??= ask($sql, $values)[0] ?? [];
}

function token(string $token): array
{
    return lookup('SELECT * FROM tokens WHERE token = ? AND NOT revoked', $token);
}

function restaurant(int $id): array
{
    return lookup('SELECT * FROM restaurants WHERE id = ?', $id);
}

function setting(int $restaurant, string $name): int
{
    $sql = 'SELECT value FROM settings WHERE restaurant_id = ? AND name = ?';
    return lookup($sql, $restaurant, $name)['value'];
}

function tables(int $restaurant): array
{
    return ask('SELECT * FROM tables WHERE restaurant_id = ? ORDER BY number', [$restaurant]);
}

/** The numbers of the tables where somebody sits for a part of the sitting that begins then. */
function taken(int $restaurant, string $date, string $time): array
{
    $sitting = setting($restaurant, 'sitting_minutes');
    $rows = ask(
        'SELECT t.number FROM orders o JOIN tables t ON t.id = o.table_id
         WHERE o.restaurant_id = ? AND o.dining_date = ? AND o.dining_time > ? AND o.dining_time < ?',
        [$restaurant, $date, plus($time, -$sitting), plus($time, $sitting)]
    );
    return array_column($rows, 'number');
}

/** Keep an order and return its number. Two guests in the same instant are not kept apart. */
function order(array $table, array $token, string $date, string $time, int $guests, string $name): int
{
    ask(
        'INSERT INTO orders
         (restaurant_id, table_id, token_id, dining_date, dining_time, guests, guest_name)
         VALUES (?, ?, ?, ?, ?, ?, ?)',
        [$table['restaurant_id'], $table['id'], $token['id'], $date, $time, $guests, $name]
    );
    return (int) db()->lastInsertId();
}

/** A time of the day, so many minutes later; within the day. */
function plus(string $time, int $minutes): string
{
    [$h, $m] = array_map('intval', explode(':', $time));
    $sum = max(0, min(24 * 60 - 1, $h * 60 + $m + $minutes));
    return sprintf('%02d:%02d', intdiv($sum, 60), $sum % 60);
}
