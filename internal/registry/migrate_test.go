package registry

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pando/internal/fleet"
)

// TestMigrate: an older file is migrated with its content; a step that fails leaves the file unchanged.
func TestMigrate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "old.db")
	s := schema{
		id:    7,
		sync:  "FULL",
		check: true,
		steps: []string{`CREATE TABLE a (x INTEGER); INSERT INTO a VALUES (1)`},
	}
	count := func(s schema) (n int, err error) {
		f, err := openFile(t.Context(), path, s)
		if err != nil {
			return 0, err
		}
		defer f.close()
		err = f.write(t.Context(), func(tx *sql.Tx) error { return tx.QueryRow(`SELECT sum(x) FROM a`).Scan(&n) })
		return n, err
	}
	if n, err := count(s); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	broken := s
	broken.steps = append(broken.steps[:1:1], `UPDATE a SET x = 5`, `NONSENSE`)
	if _, err := count(broken); err == nil || !strings.Contains(err.Error(), "bring schema 1 up to date") {
		t.Errorf("a step that fails: %v", err)
	}
	s.steps = append(s.steps, `UPDATE a SET x = x + 10`, `UPDATE a SET x = x * 2`)
	for range 2 { // once, and not again
		if n, err := count(s); n != 22 || err != nil {
			t.Errorf("brought up to date: %d, %v", n, err)
		}
	}
	other := s
	other.id = 8
	if _, err := count(other); err == nil || !strings.Contains(err.Error(), "not this kind of file") {
		t.Errorf("another program's file: %v", err)
	}
}

// TestMigrateSettings: a group has the same settings after the migration, and no others.
func TestMigrateSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), File)
	old := mainSchema
	old.steps = old.steps[:17]
	f, err := openFile(t.Context(), path, old)
	if err != nil {
		t.Fatal(err)
	}
	err = f.write(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT INTO groups (name, image, kernel_args, authorized_keys, unlock_root, reboot_after,
			write_limit, peers, share, cache, cache_size, offline, power, hours, sweep, secrets, keeping) VALUES
			('lab', 'lab:v1', '["quiet"]', '["ssh-ed25519 AAAA b"]', 1, 60000000000, '2g', 'rack', 64000000, 'disk',
			8000000000, 1, 'redfish://admin@{node}-bmc', '08:00-20:00', 1, 'tpm',
			'{"state_on":"disk","persist":["/var/log"]}'), ('some', '', '', '', 0, 0, '', '', 0, 'ram', 0, 0, '', '', 0, '', '')`)
		return err
	})
	if err := errors.Join(err, f.close()); err != nil {
		t.Fatal(err)
	}
	r, err := Open(t.Context(), Options{Dir: filepath.Dir(path)})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	same(t, read(t, r, (*Tx).Groups), []fleet.Group{
		{Name: "default"},
		{Name: "lab", Image: "lab:v1", Follow: true, KernelArgs: []string{"quiet"}, Settings: fleet.Settings{
			AuthorizedKeys: &[]string{"ssh-ed25519 AAAA b"},
			UnlockRoot:     new(true),
			RebootAfter:    new(time.Minute),
			WriteLimit:     new("2g"),
			Peers:          new(fleet.PeersRack),
			Cache:          new(fleet.CacheDisk),
			CacheSize:      new(int64(8e9)),
			Offline:        new(true),
			Secrets:        new(fleet.SecretsTPM),
			Power:          new(fleet.Power("redfish://admin@{node}-bmc")),
			Hours:          new(fleet.Hours("08:00-20:00")),
			Sweep:          new(true),
			Keeping:        fleet.Keeping{StateOn: new("disk"), Persist: &[]string{"/var/log"}},
		}},
		{Name: "some", Settings: fleet.Settings{Cache: new(fleet.CacheRAM)}},
	})
}
