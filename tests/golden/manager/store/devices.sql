BEGIN TRANSACTION;
CREATE TABLE assignment (
    pod TEXT NOT NULL,
    container TEXT NOT NULL,
    resource TEXT NOT NULL,
    devices TEXT NOT NULL,      -- JSON: NUMA node to device IDs
    response BLOB NOT NULL,     -- encoded ContainerAllocateResponse
    PRIMARY KEY (pod, container, resource)
) WITHOUT ROWID;
INSERT INTO "assignment" VALUES('6f1c2d3e','digger','example.com/gopher','{"-1": ["g1"], "1": ["gé", "g3"]}',X'0A03616263');
CREATE TABLE ended (
    pod TEXT NOT NULL,
    container TEXT NOT NULL,
    instance TEXT NOT NULL,     -- the last one whose PostStopContainer was queued
    PRIMARY KEY (pod, container)
) WITHOUT ROWID;
INSERT INTO "ended" VALUES('6f1c2d3e','digger','c1');
CREATE TABLE meta (key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "meta" VALUES('name','["node-1"]');
INSERT INTO "meta" VALUES('pre-starts','["example.com/gopher"]');
INSERT INTO "meta" VALUES('view checksums','[1, 9223372036854775808]');
CREATE TABLE operation (
    number INTEGER PRIMARY KEY AUTOINCREMENT,  -- the order in which they were queued
    id TEXT UNIQUE NOT NULL,
    kind TEXT NOT NULL,
    resource TEXT NOT NULL,
    devices TEXT NOT NULL,      -- JSON: device IDs
    pod TEXT NOT NULL,
    container TEXT NOT NULL,
    instance TEXT NOT NULL,
    reason TEXT NOT NULL,
    due TEXT NOT NULL,          -- ISO 8601
    attempts INTEGER NOT NULL
);
INSERT INTO "operation" VALUES(1,'operation-0','PostStopContainer','example.com/gopher','["g1", "gé"]','6f1c2d3e','digger','c1','unspecified','2026-01-02T03:04:05.000678+00:00',0);
INSERT INTO "operation" VALUES(2,'operation-1','Deallocate','example.com/gopher','["g1", "gé"]','6f1c2d3e','digger','c1','unspecified','2026-01-02T03:04:05.000678+00:00',1);
INSERT INTO "operation" VALUES(3,'operation-2','Deallocate','example.com/gopher','["g1", "gé"]','6f1c2d3e','digger','c1','unspecified','2026-01-02T03:04:05.000678+00:00',2);
INSERT INTO "operation" VALUES(4,'operation-3','Deallocate','example.com/gopher','["g1", "gé"]','6f1c2d3e','digger','c1','pod ended','2026-01-02T03:04:05.000678+00:00',3);
INSERT INTO "operation" VALUES(5,'operation-4','Deallocate','example.com/gopher','["g1", "gé"]','6f1c2d3e','digger','c1','admission failed','2026-01-02T03:04:05.000678+00:00',4);
INSERT INTO "operation" VALUES(6,'operation-5','Deallocate','example.com/gopher','["g1", "gé"]','6f1c2d3e','digger','c1','orphaned','2026-01-02T03:04:05.000678+00:00',5);
CREATE TABLE resource (name TEXT PRIMARY KEY NOT NULL) WITHOUT ROWID;
INSERT INTO "resource" VALUES('example.com/gopher');
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('operation',6);
COMMIT;
PRAGMA user_version = 2;
