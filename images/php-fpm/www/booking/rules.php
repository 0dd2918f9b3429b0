<?php
// Which tables a partner may give to its guests.
declare(strict_types=1);

function bookable(string $token, int $restaurant, string $time, int $guests): array
{
    return array_filter(
        tables($restaurant),
        fn (array $table): bool => small_enough($token, $table)
            && open_at($restaurant, $time)
            && seats($table, $guests)
    );
}

function small_enough(string $token, array $table): bool
{
    return $table['seats'] <= token($token)['max_seats'];
}

function open_at(int $restaurant, string $time): bool
{
    $end = plus($time, setting($restaurant, 'sitting_minutes'));
    return "$time:00" >= restaurant($restaurant)['opens'] && "$end:00" <= restaurant($restaurant)['closes'];
}

function seats(array $table, int $guests): bool
{
    return $guests <= min($table['seats'], setting($table['restaurant_id'], 'max_guests'));
}
