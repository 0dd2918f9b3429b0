-- The booking service: its tables, and rows that are the same at every run. Ten times the orders,
-- typed on db:
--   (echo 'SET @orders = 522190;'; cat /etc/mysql/booking.sql) | mysql
-- Room is for 2,190,000 orders (a year of sittings); no two are for one table and sitting.

SET @orders = COALESCE(@orders, 52219);

CREATE DATABASE IF NOT EXISTS booking CHARACTER SET utf8mb4;
USE booking;

CREATE OR REPLACE TABLE restaurants (
  id     SMALLINT UNSIGNED PRIMARY KEY,
  name   VARCHAR(60) NOT NULL,
  city   VARCHAR(40) NOT NULL,
  opens  TIME NOT NULL,
  closes TIME NOT NULL
);

-- The tables of a restaurant are counted from 1.
CREATE OR REPLACE TABLE tables (
  id            SMALLINT UNSIGNED PRIMARY KEY,
  restaurant_id SMALLINT UNSIGNED NOT NULL,
  number        TINYINT UNSIGNED NOT NULL,
  seats         TINYINT UNSIGNED NOT NULL,
  UNIQUE KEY number (restaurant_id, number)
);

CREATE OR REPLACE TABLE settings (
  restaurant_id SMALLINT UNSIGNED NOT NULL,
  name          VARCHAR(30) NOT NULL,
  value         SMALLINT UNSIGNED NOT NULL,
  PRIMARY KEY (restaurant_id, name)
);

-- A partner shows its token with each order, and may give away tables up to a size.
CREATE OR REPLACE TABLE tokens (
  id        SMALLINT UNSIGNED PRIMARY KEY,
  token     CHAR(8) NOT NULL,
  partner   VARCHAR(40) NOT NULL,
  max_seats TINYINT UNSIGNED NOT NULL,
  revoked   BOOLEAN NOT NULL DEFAULT FALSE,
  UNIQUE KEY token (token)
);

CREATE OR REPLACE TABLE orders (
  id            INT UNSIGNED AUTO_INCREMENT PRIMARY KEY,
  restaurant_id SMALLINT UNSIGNED NOT NULL,
  table_id      SMALLINT UNSIGNED NOT NULL,
  token_id      SMALLINT UNSIGNED NOT NULL,
  dining_date   DATE NOT NULL,
  dining_time   TIME NOT NULL,
  guests        TINYINT UNSIGNED NOT NULL,
  guest_name    VARCHAR(60) NOT NULL,
  note          VARCHAR(120) NOT NULL DEFAULT '',
  created_at    DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
  KEY restaurant (restaurant_id)
);

INSERT INTO restaurants
SELECT seq,
       CONCAT(ELT(1 + seq MOD 5, 'Fish & Chips', 'Chez l\'Ami', 'The "Old" Mill', 'Zur Linde', 'A<B Bistro'), ' ', seq),
       ELT(1 + seq MOD 4, 'Berlin', 'Paris', 'York', 'Wien'),
       '11:00', '23:30'
FROM seq_1_to_50;

INSERT INTO tables
SELECT 1 + seq, 1 + seq DIV 30, 1 + seq MOD 30, 2 + 2 * ((seq MOD 30) DIV 8)
FROM seq_0_to_1499;

INSERT INTO settings SELECT seq, 'sitting_minutes', 120 FROM seq_1_to_50;
INSERT INTO settings SELECT seq, 'max_guests', 8 FROM seq_1_to_50;
INSERT INTO settings SELECT seq, 'days_ahead', 1500 FROM seq_1_to_50;

INSERT INTO tokens
SELECT seq, CONCAT('token-', LPAD(seq, 2, '0')), CONCAT('Partner ', seq), 8, seq = 20
FROM seq_1_to_20;

-- Order n of a restaurant takes sitting 7919 n of the 43,800 that a restaurant has in a year: 365
-- days, 30 tables, at 12, 14, 18 and 20 o'clock. 7919 is prime, so none is taken twice.
INSERT INTO orders
  (restaurant_id, table_id, token_id, dining_date, dining_time, guests, guest_name, note, created_at)
SELECT 1 + n MOD 50,
       1 + (n MOD 50) * 30 + (sitting DIV 4) MOD 30,
       1 + n MOD 19,
       '2026-01-01' + INTERVAL sitting DIV 120 DAY,
       ELT(1 + sitting MOD 4, '12:00', '14:00', '18:00', '20:00'),
       1 + n MOD 2,
       CONCAT(ELT(1 + n MOD 7, 'Ada', 'Grace', 'Edsger', 'Barbara', 'Donald', 'Radia', 'Ken'), ' ', n),
       ELT(1 + n MOD 3, '', 'window, please', 'one of us is allergic to nuts'),
       '2025-12-01' + INTERVAL n MOD 2592000 SECOND
FROM (SELECT seq AS n, ((seq DIV 50) * 7919) MOD 43800 AS sitting
      FROM seq_0_to_2189999 WHERE seq < @orders) AS numbers;

ANALYZE TABLE restaurants, tables, settings, tokens, orders;
