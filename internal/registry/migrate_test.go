package registry

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
)

// TestMigrate: an older file is brought up to date with what is in it; a step that fails leaves the file as it was.
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
