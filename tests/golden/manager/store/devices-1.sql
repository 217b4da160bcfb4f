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
CREATE TABLE meta (key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "meta" VALUES('view checksums','[1, 9223372036854775808]');
CREATE TABLE resource (name TEXT PRIMARY KEY NOT NULL) WITHOUT ROWID;
INSERT INTO "resource" VALUES('example.com/gopher');
COMMIT;
PRAGMA user_version = 1;
