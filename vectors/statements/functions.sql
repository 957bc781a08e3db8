-- Iceberg's functions.
SELECT system.bucket(4, 34) AS a, system.bucket(4, 'iceberg') AS b, system.bucket(16, date'2017-11-16') AS c, system.bucket(8, X'00010203') AS d, system.bucket(8, 14.20BD) AS e;
SELECT system.bucket(4, 34L) AS a, system.bucket(4, 1Y) AS b, system.bucket(16, timestamp'2017-11-16 22:31:08') AS c, system.bucket(16, timestamp_ntz'2017-11-16 22:31:08') AS d;
SELECT system.truncate(10, 19) AS a, system.truncate(10, -1) AS b, system.truncate(3, 'iceberg') AS c, system.truncate(50, 10.65BD) AS d, system.truncate(2, X'010203') AS e;
SELECT system.years(date'2020-02-29') AS a, system.months(date'2020-02-29') AS b, system.days(date'2020-02-29') AS c;
SELECT system.years(timestamp'1969-12-31 23:59:59') AS a, system.months(timestamp'1969-12-31 23:59:59') AS b, system.days(timestamp'1969-12-31 23:59:59') AS c, system.hours(timestamp'1969-12-31 23:59:59') AS d;
SELECT system.bucket(4, CAST(NULL AS int)) AS a, system.truncate(4, CAST(NULL AS string)) AS b, system.days(CAST(NULL AS date)) AS c;
SELECT system.bucket(4, NULL) AS a;
SELECT system.bucket(0, 1) AS a;
SELECT system.bucket(4, 1.5D) AS a;
SELECT system.bucket(4) AS a;
SELECT system.truncate(0, 1) AS a;
SELECT system.truncate(4, date'2020-01-01') AS a;
SELECT system.hours(date'2020-01-01') AS a;
SELECT system.days('text') AS a;
SELECT system.iceberg_version() IS NOT NULL AS a;
SELECT system.nonsense(1) AS a;
