package registry

// schema has the steps of one file's schema: step n migrates version n to version n+1. A released step must never
// change; add a new step instead.
type schema struct {
	id    int    // PRAGMA application_id, which tells the registry's files apart
	sync  string // PRAGMA synchronous
	check bool   // check the whole file when it is opened
	hint  string // what to do if the file is damaged
	steps []string
}

var mainSchema = schema{
	id: 0x506e6431, sync: "FULL", check: true,
	hint: "restore it from a backup; or move it and its -wal and -shm files away to begin with an empty registry " +
		"(images and keys stay)",
	steps: []string{
		mainStep1, mainStep2, mainStep3, mainStep4, mainStep5, mainStep6, mainStep7, mainStep8, mainStep9,
		mainStep10, mainStep11, mainStep12, mainStep13, mainStep14, mainStep15, mainStep16, mainStep17, mainStep18,
		mainStep19, mainStep20,
	},
}

var eventsSchema = schema{
	id: 0x506e6532, sync: "NORMAL",
	hint:  "move it and its -wal and -shm files away: only the timelines of past boots are lost",
	steps: []string{eventsStep1, eventsStep2, eventsStep3, eventsStep4, eventsStep5},
}

const mainStep1 = `
CREATE TABLE groups (
	name TEXT PRIMARY KEY, image TEXT NOT NULL DEFAULT '', kernel_args TEXT NOT NULL DEFAULT '',
	authorized_keys TEXT NOT NULL DEFAULT '', unlock_root INTEGER NOT NULL DEFAULT 0,
	reboot_after INTEGER NOT NULL DEFAULT 0, write_limit TEXT NOT NULL DEFAULT ''
) STRICT;
INSERT INTO groups (name) VALUES ('default');

CREATE TABLE nodes (
	name TEXT PRIMARY KEY, state TEXT NOT NULL, grp TEXT NOT NULL REFERENCES groups (name),
	labels TEXT NOT NULL, address TEXT NOT NULL, version TEXT NOT NULL, kernel_args TEXT NOT NULL,
	uuid TEXT NOT NULL, serial TEXT NOT NULL, created INTEGER NOT NULL, seen INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX nodes_address ON nodes (address) WHERE address != '';
CREATE INDEX nodes_grp ON nodes (grp);

CREATE TABLE macs (
	mac TEXT PRIMARY KEY, node TEXT NOT NULL REFERENCES nodes (name), place INTEGER NOT NULL
) STRICT;
CREATE INDEX macs_node ON macs (node);

CREATE TABLE versions (
	image TEXT NOT NULL, version TEXT NOT NULL, added INTEGER NOT NULL, PRIMARY KEY (image, version)
) STRICT;
CREATE TABLE tags (
	image TEXT NOT NULL, tag TEXT NOT NULL, version TEXT NOT NULL, PRIMARY KEY (image, tag),
	FOREIGN KEY (image, version) REFERENCES versions (image, version)
) STRICT;

CREATE TABLE leases (
	addr TEXT PRIMARY KEY, sort BLOB NOT NULL, mac TEXT NOT NULL, host TEXT NOT NULL,
	static INTEGER NOT NULL, expires INTEGER NOT NULL, bad INTEGER NOT NULL
) STRICT;
CREATE INDEX leases_mac ON leases (mac);

CREATE TABLE boots (
	id TEXT PRIMARY KEY, mac TEXT NOT NULL, node TEXT NOT NULL, addr TEXT NOT NULL, firmware TEXT NOT NULL,
	started INTEGER NOT NULL, exchanged INTEGER NOT NULL, scripted INTEGER NOT NULL,
	version TEXT NOT NULL, image TEXT NOT NULL, token BLOB, token_made INTEGER NOT NULL, token_used INTEGER NOT NULL,
	nonce BLOB, session BLOB, init INTEGER NOT NULL, hardware TEXT NOT NULL
) STRICT;
CREATE INDEX boots_node ON boots (node, started);
CREATE INDEX boots_mac ON boots (mac, started);
CREATE INDEX boots_started ON boots (started);
CREATE INDEX boots_session ON boots (session) WHERE session IS NOT NULL;

CREATE TABLE tokens (
	name TEXT PRIMARY KEY, hash BLOB NOT NULL UNIQUE, created INTEGER NOT NULL, used INTEGER NOT NULL, expires INTEGER NOT NULL
) STRICT;
CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
`

const mainStep2 = `
ALTER TABLE boots ADD COLUMN drivers TEXT NOT NULL DEFAULT '';
`

const mainStep3 = `
ALTER TABLE groups ADD COLUMN peers TEXT NOT NULL DEFAULT '';
ALTER TABLE groups ADD COLUMN share INTEGER NOT NULL DEFAULT 0;
`

const mainStep4 = `
ALTER TABLE groups ADD COLUMN cache TEXT NOT NULL DEFAULT '';
ALTER TABLE groups ADD COLUMN cache_size INTEGER NOT NULL DEFAULT 0;
`

const mainStep5 = `
ALTER TABLE groups ADD COLUMN offline INTEGER NOT NULL DEFAULT 0;
`

const mainStep6 = `
CREATE TABLE tag_moves (
	seq INTEGER PRIMARY KEY AUTOINCREMENT, image TEXT NOT NULL, tag TEXT NOT NULL, version TEXT NOT NULL, was TEXT NOT NULL,
	at INTEGER NOT NULL, who TEXT NOT NULL
) STRICT;
CREATE INDEX tag_moves_image ON tag_moves (image, seq);
`

const mainStep7 = `
CREATE TABLE classes (name TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT;
`

const mainStep8 = `
CREATE TABLE rollouts (
	id TEXT PRIMARY KEY, grp TEXT NOT NULL, live INTEGER NOT NULL, created INTEGER NOT NULL, body TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX rollouts_live ON rollouts (grp) WHERE live;
CREATE TABLE rollout_numbers (grp TEXT PRIMARY KEY, number INTEGER NOT NULL) STRICT;
CREATE TABLE rollout_nodes (
	rollout TEXT NOT NULL REFERENCES rollouts (id), node TEXT NOT NULL, place INTEGER NOT NULL, target TEXT NOT NULL,
	body TEXT NOT NULL, PRIMARY KEY (rollout, node)
) STRICT;
CREATE INDEX rollout_nodes_node ON rollout_nodes (node);
`

const mainStep9 = `
ALTER TABLE nodes ADD COLUMN overrides TEXT NOT NULL DEFAULT '';
CREATE INDEX nodes_serial ON nodes (serial) WHERE serial != '';
`

const mainStep10 = `
CREATE TABLE config_files (
	scope TEXT NOT NULL, path TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (scope, path)
) STRICT;
ALTER TABLE boots ADD COLUMN server TEXT NOT NULL DEFAULT '';
ALTER TABLE boots ADD COLUMN config TEXT NOT NULL DEFAULT '';
`

const mainStep11 = `
ALTER TABLE groups ADD COLUMN power TEXT NOT NULL DEFAULT '';
ALTER TABLE groups ADD COLUMN hours TEXT NOT NULL DEFAULT '';
ALTER TABLE groups ADD COLUMN sweep INTEGER NOT NULL DEFAULT 0;
CREATE TABLE power_passwords (kind TEXT NOT NULL, name TEXT NOT NULL, sealed BLOB NOT NULL, PRIMARY KEY (kind, name)) STRICT;
CREATE TABLE power_wishes (node TEXT PRIMARY KEY, is_on INTEGER NOT NULL, at INTEGER NOT NULL, who TEXT NOT NULL) STRICT;
CREATE TABLE power_hours (hours TEXT PRIMARY KEY, upto INTEGER NOT NULL) STRICT;
`

const mainStep12 = `
ALTER TABLE boots ADD COLUMN approved INTEGER NOT NULL DEFAULT 0;
ALTER TABLE boots ADD COLUMN proof TEXT NOT NULL DEFAULT '';
ALTER TABLE groups ADD COLUMN secrets TEXT NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN tpm_key TEXT NOT NULL DEFAULT '';
CREATE TABLE secrets (name TEXT PRIMARY KEY, sealed BLOB NOT NULL, changed INTEGER NOT NULL) STRICT;
CREATE TABLE secret_scopes (
	secret TEXT NOT NULL REFERENCES secrets (name), scope TEXT NOT NULL, PRIMARY KEY (secret, scope)
) STRICT;
`

const mainStep13 = `
ALTER TABLE tokens ADD COLUMN role TEXT NOT NULL DEFAULT 'admin';
CREATE TABLE users (
	name TEXT PRIMARY KEY, role TEXT NOT NULL, hash TEXT NOT NULL, created INTEGER NOT NULL, used INTEGER NOT NULL
) STRICT;
CREATE TABLE audit (
	seq INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, who TEXT NOT NULL, source TEXT NOT NULL, method TEXT NOT NULL,
	path TEXT NOT NULL, body TEXT NOT NULL, status INTEGER NOT NULL, error TEXT NOT NULL
) STRICT;
`

const mainStep14 = `
ALTER TABLE groups ADD COLUMN keeping TEXT NOT NULL DEFAULT '';
`

const mainStep15 = `
ALTER TABLE users ADD COLUMN issuer TEXT NOT NULL DEFAULT '';
ALTER TABLE users ADD COLUMN subject TEXT NOT NULL DEFAULT '';
CREATE UNIQUE INDEX users_subject ON users (issuer, subject) WHERE issuer != '';
`

const mainStep16 = `
ALTER TABLE tokens ADD COLUMN reach TEXT NOT NULL DEFAULT '';
`

const mainStep17 = `
CREATE TABLE state_records (
	node TEXT PRIMARY KEY, dir TEXT NOT NULL, deleted INTEGER NOT NULL, body TEXT NOT NULL
) STRICT;
CREATE INDEX state_records_dir ON state_records (dir);
CREATE INDEX state_records_deleted ON state_records (deleted) WHERE deleted != 0;
`

// mainStep18 moves the settings of a group into one JSON object, like those of a node. json_patch leaves out nulls.
const mainStep18 = `
ALTER TABLE groups ADD COLUMN settings TEXT NOT NULL DEFAULT '';
UPDATE groups SET settings = json_patch(iif(keeping = '', '{}', keeping), json_object(
	'authorized_keys', json(nullif(authorized_keys, '')),
	'unlock_root', iif(unlock_root, json('true'), NULL),
	'reboot_after', nullif(reboot_after, 0),
	'write_limit', nullif(write_limit, ''),
	'peers', nullif(peers, ''),
	'share', nullif(share, 0),
	'cache', nullif(cache, ''),
	'cache_size', nullif(cache_size, 0),
	'offline', iif(offline, json('true'), NULL),
	'secrets', nullif(secrets, ''),
	'power', nullif(power, ''),
	'hours', nullif(hours, ''),
	'sweep', iif(sweep, json('true'), NULL)
));
UPDATE groups SET settings = '' WHERE settings = '{}';
ALTER TABLE groups DROP COLUMN authorized_keys;
ALTER TABLE groups DROP COLUMN unlock_root;
ALTER TABLE groups DROP COLUMN reboot_after;
ALTER TABLE groups DROP COLUMN write_limit;
ALTER TABLE groups DROP COLUMN peers;
ALTER TABLE groups DROP COLUMN share;
ALTER TABLE groups DROP COLUMN cache;
ALTER TABLE groups DROP COLUMN cache_size;
ALTER TABLE groups DROP COLUMN offline;
ALTER TABLE groups DROP COLUMN power;
ALTER TABLE groups DROP COLUMN hours;
ALTER TABLE groups DROP COLUMN sweep;
ALTER TABLE groups DROP COLUMN secrets;
ALTER TABLE groups DROP COLUMN keeping;
`

const mainStep19 = `
ALTER TABLE boots ADD COLUMN pxe_menu INTEGER NOT NULL DEFAULT 0;
`

// mainStep20 separates declared from reported values. It is not known which of them existing values are: they count
// as declared, so that no declaration is lost.
const mainStep20 = `
ALTER TABLE nodes ADD COLUMN serial_seen TEXT NOT NULL DEFAULT '';
UPDATE nodes SET serial_seen = serial;
UPDATE nodes SET serial = '' WHERE state = 'discovered';
ALTER TABLE macs ADD COLUMN learned INTEGER NOT NULL DEFAULT 0;
`

const eventsStep1 = `
CREATE TABLE events (
	seq INTEGER PRIMARY KEY AUTOINCREMENT, boot TEXT NOT NULL, body BLOB NOT NULL
) STRICT;
CREATE INDEX events_boot ON events (boot, seq);

CREATE TABLE progress (
	boot TEXT PRIMARY KEY, updated INTEGER NOT NULL, events INTEGER NOT NULL, body BLOB, status BLOB
) STRICT;
CREATE INDEX progress_updated ON progress (updated);
`

const eventsStep2 = `
CREATE TABLE history (
	seq INTEGER PRIMARY KEY, boot TEXT NOT NULL UNIQUE, started INTEGER NOT NULL, node TEXT NOT NULL, grp TEXT NOT NULL,
	class TEXT NOT NULL, version TEXT NOT NULL, state TEXT NOT NULL, body BLOB NOT NULL
) STRICT;
CREATE INDEX history_started ON history (started);
CREATE INDEX history_version ON history (version, started);
CREATE TABLE history_mark (seq INTEGER NOT NULL) STRICT;
INSERT INTO history_mark VALUES (0);
`

const eventsStep3 = `
CREATE TABLE consoles (boot TEXT PRIMARY KEY, updated INTEGER NOT NULL, text BLOB NOT NULL) STRICT;
CREATE INDEX consoles_updated ON consoles (updated);
`

const eventsStep4 = `
CREATE TABLE samples (
	server TEXT NOT NULL, at INTEGER NOT NULL, width INTEGER NOT NULL, sent INTEGER NOT NULL, read INTEGER NOT NULL, written INTEGER NOT NULL,
	PRIMARY KEY (server, at)
) STRICT, WITHOUT ROWID;
CREATE INDEX samples_at ON samples (at);

CREATE TABLE feedings (
	boot TEXT PRIMARY KEY, started INTEGER NOT NULL, node TEXT NOT NULL, place TEXT NOT NULL, body BLOB NOT NULL
) STRICT;
CREATE INDEX feedings_started ON feedings (started);
`

// eventsStep5 counts the bytes of events, and stores the beginning of a node event's SHA-256 to recognize a repeated
// one.
const eventsStep5 = `
ALTER TABLE progress ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE progress ADD COLUMN left_out INTEGER NOT NULL DEFAULT 0;
ALTER TABLE progress ADD COLUMN told INTEGER NOT NULL DEFAULT 0;
UPDATE progress SET bytes = coalesce(was.bytes, 0) FROM
	(SELECT boot, sum(length(body)) AS bytes FROM events GROUP BY boot) AS was WHERE was.boot = progress.boot;
CREATE TABLE event_bytes (total INTEGER NOT NULL) STRICT;
INSERT INTO event_bytes SELECT coalesce(sum(length(body)), 0) FROM events;
ALTER TABLE events ADD COLUMN digest INTEGER;
CREATE INDEX events_digest ON events (boot, digest) WHERE digest IS NOT NULL;
`
