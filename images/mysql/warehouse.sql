-- A wholesaler's warehouse, in the tables of TPC-H, with a history of prices; rows that are the same
-- at every run. Ten times the size, typed on db:
--   (echo 'SET @scale = 0.1;'; cat /etc/mysql/warehouse.sql) | mysql
-- Room is for a scale of 0.2.

SET @scale = COALESCE(@scale, 0.01);

CREATE DATABASE IF NOT EXISTS warehouse CHARACTER SET utf8mb4;
USE warehouse;

CREATE OR REPLACE TABLE region (
  r_regionkey TINYINT UNSIGNED PRIMARY KEY,
  r_name      VARCHAR(25) NOT NULL
);

CREATE OR REPLACE TABLE nation (
  n_nationkey TINYINT UNSIGNED PRIMARY KEY,
  n_name      VARCHAR(25) NOT NULL,
  n_regionkey TINYINT UNSIGNED NOT NULL
);

CREATE OR REPLACE TABLE supplier (
  s_suppkey   INT UNSIGNED PRIMARY KEY,
  s_name      VARCHAR(25) NOT NULL,
  s_nationkey TINYINT UNSIGNED NOT NULL,
  s_acctbal   DECIMAL(12,2) NOT NULL
);

CREATE OR REPLACE TABLE customer (
  c_custkey    INT UNSIGNED PRIMARY KEY,
  c_name       VARCHAR(25) NOT NULL,
  c_address    VARCHAR(40) NOT NULL,
  c_nationkey  TINYINT UNSIGNED NOT NULL,
  c_phone      VARCHAR(15) NOT NULL,
  c_mktsegment VARCHAR(10) NOT NULL,
  c_acctbal    DECIMAL(12,2) NOT NULL
);

CREATE OR REPLACE TABLE part (
  p_partkey     INT UNSIGNED PRIMARY KEY,
  p_name        VARCHAR(55) NOT NULL,
  p_brand       VARCHAR(10) NOT NULL,
  p_type        VARCHAR(25) NOT NULL,
  p_size        TINYINT UNSIGNED NOT NULL
);

CREATE OR REPLACE TABLE partsupp (
  ps_partkey    INT UNSIGNED NOT NULL,
  ps_suppkey    INT UNSIGNED NOT NULL,
  ps_availqty   SMALLINT UNSIGNED NOT NULL,
  ps_supplycost DECIMAL(12,2) NOT NULL,
  PRIMARY KEY (ps_partkey, ps_suppkey)
);

-- What a part cost, half a year at a time.
CREATE OR REPLACE TABLE price_history (
  h_id      INT UNSIGNED AUTO_INCREMENT PRIMARY KEY,
  h_partkey INT UNSIGNED NOT NULL,
  h_from    DATE NOT NULL,
  h_until   DATE NOT NULL,
  h_price   DECIMAL(12,2) NOT NULL,
  KEY part (h_partkey, h_from),
  KEY valid (h_from)
);

CREATE OR REPLACE TABLE orders (
  o_orderkey      INT UNSIGNED PRIMARY KEY,
  o_custkey       INT UNSIGNED NOT NULL,
  o_orderstatus   CHAR(1) NOT NULL,
  o_orderdate     DATE NOT NULL,
  o_orderpriority VARCHAR(15) NOT NULL,
  o_comment       VARCHAR(79) NOT NULL,
  KEY customer (o_custkey)
);

CREATE OR REPLACE TABLE lineitem (
  l_orderkey      INT UNSIGNED NOT NULL,
  l_linenumber    TINYINT UNSIGNED NOT NULL,
  l_partkey       INT UNSIGNED NOT NULL,
  l_suppkey       INT UNSIGNED NOT NULL,
  l_quantity      TINYINT UNSIGNED NOT NULL,
  l_extendedprice DECIMAL(12,2) NOT NULL,
  l_discount      DECIMAL(4,2) NOT NULL,
  l_returnflag    CHAR(1) NOT NULL,
  l_shipdate      DATE NOT NULL,
  l_comment       VARCHAR(44) NOT NULL,
  PRIMARY KEY (l_orderkey, l_linenumber)
);

INSERT INTO region
SELECT seq, ELT(1 + seq, 'AFRICA', 'AMERICA', 'ASIA', 'EUROPE', 'MIDDLE EAST') FROM seq_0_to_4;

INSERT INTO nation SELECT seq, CONCAT('NATION ', seq), seq MOD 5 FROM seq_0_to_24;

INSERT INTO supplier
SELECT seq, CONCAT('Supplier#', LPAD(seq, 9, '0')), CRC32(seq) MOD 25, (CRC32(seq) MOD 1000000) / 100
FROM seq_1_to_2000 WHERE seq <= 10000 * @scale;

INSERT INTO customer
SELECT seq, CONCAT('Customer#', LPAD(seq, 9, '0')), CONCAT(CRC32(seq) MOD 900, ' High Street, Town ', seq MOD 97),
       CRC32(seq) MOD 25, CONCAT(10 + seq MOD 25, '-', LPAD(CRC32(seq) MOD 10000000, 7, '0')),
       ELT(1 + seq MOD 5, 'AUTOMOBILE', 'BUILDING', 'FURNITURE', 'HOUSEHOLD', 'MACHINERY'),
       (CRC32(seq) MOD 1000000) / 100
FROM seq_1_to_30000 WHERE seq <= 150000 * @scale;

INSERT INTO part
SELECT seq, CONCAT(ELT(1 + seq MOD 5, 'almond', 'azure', 'blush', 'chiffon', 'drab'), ' ',
                   ELT(1 + seq MOD 3, 'lace', 'linen', 'metallic'), ' ', seq),
       CONCAT('Brand#', 11 + CRC32(seq) MOD 45),
       CONCAT(ELT(1 + seq MOD 4, 'ECONOMY', 'LARGE', 'SMALL', 'STANDARD'), ' ',
              ELT(1 + seq MOD 5, 'BRASS', 'COPPER', 'NICKEL', 'STEEL', 'TIN')),
       1 + CRC32(seq) MOD 50
FROM seq_1_to_40000 WHERE seq <= 200000 * @scale;

INSERT INTO partsupp
SELECT p_partkey, 1 + (p_partkey + seq * (2500 * @scale)) MOD (10000 * @scale),
       CRC32(p_partkey * 4 + seq) MOD 10000, (100 + CRC32(p_partkey * 4 + seq) MOD 99901) / 100
FROM part JOIN seq_0_to_3;

INSERT INTO price_history (h_partkey, h_from, h_until, h_price)
SELECT p_partkey, '1992-01-01' + INTERVAL 6 * seq MONTH, '1992-01-01' + INTERVAL 6 * seq + 6 MONTH,
       (90000 + CRC32(p_partkey) MOD 100000) / 100 * (1 + seq / 50)
FROM part JOIN seq_0_to_13;

INSERT INTO orders
SELECT seq, 1 + CRC32(CONCAT('c', seq)) MOD FLOOR(150000 * @scale), ELT(1 + seq MOD 3, 'F', 'O', 'P'),
       '1992-01-01' + INTERVAL CRC32(CONCAT('d', seq)) MOD 2400 DAY,
       ELT(1 + seq MOD 5, '1-URGENT', '2-HIGH', '3-MEDIUM', '4-NOT SPECIFIED', '5-LOW'),
       CONCAT('carefully final deposits of ', MD5(seq))
FROM seq_1_to_300000 WHERE seq <= 1500000 * @scale;

-- One to seven lines an order, four on average, at the price of the day they were shipped.
INSERT INTO lineitem
SELECT orderkey, line, partkey, suppkey, quantity, quantity * h_price, discount, returnflag, shipdate, comment
FROM (SELECT o_orderkey AS orderkey, seq AS line,
             1 + CRC32(o_orderkey * 8 + seq) MOD FLOOR(200000 * @scale) AS partkey,
             1 + CRC32(o_orderkey * 8 - seq) MOD FLOOR(10000 * @scale) AS suppkey,
             1 + CRC32(o_orderkey + seq) MOD 50 AS quantity,
             (CRC32(o_orderkey * 8 + seq) MOD 11) / 100 AS discount,
             ELT(1 + CRC32(seq + o_orderkey) MOD 3, 'A', 'N', 'R') AS returnflag,
             o_orderdate + INTERVAL 1 + CRC32(o_orderkey * 8 + seq) MOD 120 DAY AS shipdate,
             CONCAT('slyly ', LEFT(MD5(o_orderkey * 8 + seq), 26)) AS comment
      FROM orders JOIN seq_1_to_7 WHERE seq <= 1 + CRC32(o_orderkey) MOD 7) AS line
JOIN price_history ON h_partkey = partkey AND h_from <= shipdate AND h_until > shipdate;

ANALYZE TABLE region, nation, supplier, customer, part, partsupp, price_history, orders, lineitem;
