-- What each upstream server last said of its tools, so that a change is noticed also after a restart.
CREATE TABLE upstream_tools (
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    first_seen TEXT NOT NULL,
    changed_at TEXT NOT NULL,
    PRIMARY KEY (server, tool)
);
