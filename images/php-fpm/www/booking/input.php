<?php
// What a page is asked for, checked, and what it answers.
declare(strict_types=1);

require __DIR__ . '/store.php';
require __DIR__ . '/rules.php';

/** An answer other than the one that was hoped for, with its HTTP status. */
final class Refused extends Exception
{
}

set_exception_handler(function (Throwable $problem): void {
    $status = match (true) {
        $problem instanceof Refused => $problem->getCode(),
        $problem instanceof PDOException => 503,
        default => 500,
    };
    if (!$problem instanceof Refused) {
        error_log((string) $problem);
    }
    http_response_code($status);
    header('Content-Type: text/plain; charset=utf-8');
    echo $problem instanceof Refused ? $problem->getMessage() : 'please try again later', "\n";
});

function number(array $from, string $name): int
{
    $value = filter_var($from[$name] ?? null, FILTER_VALIDATE_INT, ['options' => ['min_range' => 1]]);
    return $value === false ? throw new Refused("$name: a number is wanted", 400) : $value;
}

function text(array $from, string $name, string $pattern): string
{
    $value = $from[$name] ?? null;
    if (!is_string($value) || !preg_match($pattern, $value)) {
        throw new Refused("$name: missing, or not in its form", 400);
    }
    return $value;
}

function date_in(array $from): string
{
    $text = text($from, 'date', '/^\d{4}-\d\d-\d\d$/D');
    [$year, $month, $day] = array_map('intval', explode('-', $text));
    return checkdate($month, $day, $year) ? $text : throw new Refused('date: no such day', 400);
}

function time_in(array $from): string
{
    return text($from, 'time', '/^([01]\d|2[0-3]):[0-5]\d$/D');
}
